"""Figures as files: what was measured, by which command, on which machine, with which versions."""

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"
# When the measurement began, and how much the machine had to do by then.
BEGAN, LOAD = time.time(), os.getloadavg()[0]


def about(binaries, script):
    """The machine, the versions and the command of this run."""
    return {
        "command": shlex.join([f"Benchmarks/{script}", *(short(word) for word in sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d", time.gmtime(BEGAN)), "seconds": round(time.time() - BEGAN),
        "cores": os.cpu_count(), "processor": processor(), "memory": memory(), "kernel": platform.release(), "load": round(LOAD, 1),
        "builds": [build(binary) for binary in binaries],
        "versions": {name: version for name, version in versions().items() if version}}


def write(path, binaries, script, figures):
    """In one piece: who reads it finds all of it, or what was there before."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"about": about(binaries, script), **figures}, indent=1) + "\n")
    new.replace(path)


def build(binary):
    """A program's version and commit, as it says them itself."""
    return output(binary, "--version")


def versions():
    version = lambda *command, pattern=r"\d+(\.\d+)+": (re.search(pattern, output(*command)) or [None])[0]
    found = {
        "Swift": version("swift", "--version", pattern=r"(?<=Swift version )\S+"), "Python": platform.python_version(),
        "SQLite of the bench": sqlite3.sqlite_version, "PostgreSQL": version("psql", "--version"),
        "wrk": version("wrk", "--version")}
    for package in ("aioapns", "firebase-admin"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def processor():
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def memory():
    """Of the machine, in GB."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def output(*command):
    """What a program prints; nothing where there is none. wrk ends with 1 when it says its version."""
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def short(word):
    """An argument without the folders of whoever measured."""
    return Path(word).name if word.startswith("/") else word
