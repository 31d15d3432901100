"""A machine that can lose its power: programs under the shim, whose files are all below one folder."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from conformance.limits import TIMEOUT
from disk import Disk


class Machine:
    """`root` is its disk. Programs are started on it between `boot` and `lose_power`."""

    def __init__(self, folder, shim, ignores_sync=False):
        self.folder, self.shim, self.ignores_sync = folder, shim, ignores_sync
        self.root, self.journal, self.state = folder / "disk", folder / "journal", folder / "state"
        folder.chmod(0o755)
        self.library = ctypes.CDLL(str(shim))
        self.library.power_loss_count.restype = ctypes.c_uint64
        self.saved, self.processes = folder / "saved", []
        self.root.mkdir(exist_ok=True)

    @property
    def environment(self):
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PUSH_BOUNCER_")},
            "LD_PRELOAD": str(self.shim), "POWER_LOSS_FOLDER": str(self.root),
            "POWER_LOSS_JOURNAL": str(self.journal), "POWER_LOSS_STATE": str(self.state)}

    def save(self):
        """Keeps what is on the disk, for `reset`."""
        shutil.rmtree(self.saved, ignore_errors=True)
        subprocess.run(["cp", "--archive", self.root, self.saved], check=True)

    def reset(self):
        shutil.rmtree(self.root)
        if self.saved.exists():
            subprocess.run(["cp", "--archive", self.saved, self.root], check=True)
        else:
            self.root.mkdir()

    def boot(self, cut_at=0):
        """Switches it on. It stops to write after so many operations; 0: never."""
        self.disk = Disk(self.root)
        self.journal.write_bytes(b"")
        self.journal.chmod(0o666)
        assert not self.library.power_loss_prepare(os.fsencode(self.state), ctypes.c_uint64(cut_at), int(self.ignores_sync))
        self.state.chmod(0o666)

    def cut_after(self, count):
        """It stops to write after so many more operations. After a cut its programs have to be killed before."""
        self.library.power_loss_cut_after(ctypes.c_uint64(count))

    @property
    def count(self):
        return self.library.power_loss_count()

    @property
    def is_cut(self):
        return bool(self.library.power_loss_is_cut())

    def start(self, command, environment={}, **options):
        process = subprocess.Popen(
            [str(word) for word in command], cwd=self.root, env={**self.environment, **environment}, start_new_session=True,
            stdin=subprocess.DEVNULL, **options)
        self.processes.append(process)
        return process

    def run(self, command, environment={}):
        """Runs a command to its end, or to the cut. Returns its status (None after a cut), output and errors."""
        with open(self.folder / "out", "w+") as out, open(self.folder / "err", "w+") as err:
            process = self.start(command, environment, stdout=out, stderr=err)
            self.until(lambda: process.poll() is not None, f"the end of {' '.join(map(str, command))}")
            out.seek(0), err.seek(0)
            return process.poll(), out.read(), err.read()

    def until(self, condition, what):
        """Waits until it holds, or the power is cut. Returns whether it holds."""
        deadline = time.monotonic() + TIMEOUT
        while not (holds := condition()) and not self.is_cut:
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}")
            time.sleep(0.002)
        return bool(holds)

    def stop(self):
        """Kills everything."""
        killed = []
        for process in self.processes:
            # One that is stopped starts no more processes.
            for pid in [process.pid, *_descendants(process.pid)] if process.poll() is None else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                killed += [pid, *_descendants(pid)]
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        while any(map(_is_running, killed)):
            time.sleep(0.001)
        self.processes = []

    def settle(self):
        """Kills everything, and takes over what the programs have done. The shim has to have seen all of it."""
        self.stop()
        self.disk.follow(self.journal.read_bytes())
        self.disk.check()

    def lose_power(self, random):
        """Kills everything, and leaves what a disk may hold at this moment."""
        self.settle()
        return self.disk.cut(random)


def _descendants(pid):
    """The processes that a process has started, as long as it lives; the youngest first."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            found += [*_descendants(child), child]
    return found


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
