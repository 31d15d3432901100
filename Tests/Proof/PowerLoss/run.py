"""Cuts the power of a machine on which push-bouncer runs, again and again, and checks that nothing that was promised is lost.

A shim under the program records what it writes and what it syncs. At a cut, any part of what was not synced reaches the
disk, and with that the program starts again. Documentation/Proof/PowerLoss.md says what exactly, and what was found.

The exit status is 0 only if after each cut what was answered is there, the program starts, and keys and configuration are
whole or absent. A life that fails prints its seed; --seed with it and --cuts 1 begins with the same life.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import moving
import postgresql
import scenarios
from conformance.limits import limit
from conformance.simulator import Simulator
from disk import Unseen
from machine import Machine
from service import Service

ROOT = Path(__file__).resolve().parents[3]
SHIM = Path(__file__).parent / "Shim"
# Where a failed life's machine is left: its disk, the records and the logs.
KEPT = ROOT / ".build/power-loss"
SCENARIOS = {
    "load": scenarios.Load, "init": scenarios.Init, "start": scenarios.Start, "keys": scenarios.Keys, "copy": moving.Copy,
    "import": moving.Import}
# Seconds for a life, which has several cuts.
LIMIT = 600
# Of a hundred cuts on SQLite.
SHARES = {"load": 40, "init": 15, "start": 15, "keys": 10, "copy": 10, "import": 10}


def arguments():
    parser = argparse.ArgumentParser(prog="Scripts/proof/power-loss", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / ".build/debug/push-bouncer", help="the build to run (default: the debug build)")
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--scenario", choices=list(SHARES), action="append", help="only this one; may be given several times")
    parser.add_argument("--cuts", type=int, default=20, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="repeats the moments of a run's cuts")
    parser.add_argument("--self-test", action="store_true", help="only show that losses are found if syncing does nothing")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    if not options.binary.exists():
        parser.error(f"there is no {options.binary}: swift build --product push-bouncer makes it")
    return options


def build_shim(folder):
    shim = folder / "shim.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-o", shim, *sorted(SHIM.glob("*.c")), "-lpthread"],
        check=True)
    return shim


class Run:
    """One scenario's lives on a machine of its own."""

    def __init__(self, options, name, folder, shim, simulator, ignores_sync=False):
        self.name, self.seed = name, options.seed
        folder.mkdir()
        self.machine = Machine(folder, shim, ignores_sync)
        if options.engine == "postgresql":
            self.scenario = postgresql.Load(self.machine, options.binary, simulator)
        else:
            self.scenario = SCENARIOS[name](self.machine, Service(self.machine, options.binary, simulator))
        self.scenario.service.forget()

    def live(self, cuts):
        """Returns how many cuts there were, and the first failure."""
        done, life = 0, 0
        try:
            with limit(LIMIT, "its preparation"):
                self.scenario.prepare()
                self.machine.save()
            while done < cuts:
                self.machine.reset()
                self.scenario.service.forget()
                chance = random.Random(f"{self.name} {self.seed + life}")
                with limit(LIMIT, "its life"):
                    for _ in self.scenario.life(chance, min(self.scenario.cuts_of_a_life, cuts - done)):
                        done += 1
                life += 1
        except (AssertionError, Unseen) as failure:
            manner = getattr(self.scenario, "manner", "no cut")
            self.machine.stop()
            if not self.machine.ignores_sync:
                shutil.rmtree(KEPT / self.name, ignore_errors=True)
                shutil.copytree(self.machine.folder, KEPT / self.name, symlinks=True, ignore=shutil.ignore_patterns("sockets"))
            return done, f"--scenario {self.name} --seed {self.seed + life}, cut {done + 1} ({manner}): {failure}"
        finally:
            self.machine.stop()
        return done, None


def main():
    options = arguments()
    # So that nothing is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = options.scenario or (["load"] if options.engine == "postgresql" else list(SHARES))
    total, failed = sum(SHARES[name] for name in names), False
    print(f"--seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="power-loss.") as folder:
        folder = Path(folder).resolve()
        # The database server is another user.
        folder.chmod(0o755)
        shim, simulator = build_shim(folder), Simulator(options.binary)
        try:
            if options.self_test:
                done, failure = Run(options, "load", folder / "none", shim, simulator, ignores_sync=True).live(50)
                print(f"ok    without syncing, cut {done + 1} loses something: {failure}" if failure else f"FAIL  {done} cuts without syncing lose nothing")
                return 0 if failure else 1
            for name in names:
                start, cuts = time.monotonic(), max(1, round(options.cuts * SHARES[name] / total))
                run = Run(options, name, folder / name, shim, simulator)
                done, failure = run.live(cuts)
                failed |= failure is not None
                print(
                    f"{'FAIL' if failure else 'ok  '}  {options.engine} {name}: {done} cuts, {run.scenario.within} of them within, "
                    f"in {time.monotonic() - start:.0f} s" + (f"\n      {failure}" if failure else ""), flush=True)
        finally:
            simulator.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
