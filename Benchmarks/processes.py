"""The processes of a measurement: how they are started and stopped, and what they have used."""

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class Processes:
    """Starts processes, and ends them in reverse order."""

    def __init__(self, stack: contextlib.ExitStack):
        self.stack = stack

    def start(self, command, **options):
        process = subprocess.Popen([str(word) for word in command], **options)
        self.stack.callback(self.stop, process)
        return process

    def run(self, command):
        """Runs a program to its end. Returns what it has printed and what it has used."""
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            raise SystemExit(f"{command[0]}: {output}")
        return output, usage.ru_utime + usage.ru_stime

    def used(self, process):
        """CPU seconds of a process so far."""
        return cpu_seconds(process.pid)

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def free_ports(count):
    """Ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def cpu_seconds(pid):
    """CPU time of a process, all its threads."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS


def tree_cpu_seconds(pid):
    """CPU time of a process and its children, including those that have ended."""
    total = sum(int(field) for field in _stat(pid)[11:15])
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            total += sum(int(field) for field in _stat(child)[11:15])
    return total / TICKS


def memory_megabytes(pid, kind="VmRSS"):
    """Resident memory; of the kind RssAnon without that of files, such as the program and its libraries."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(kind)) / 1024


def _stat(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
