"""Samples of what a process and its database use, taken every few seconds."""

import contextlib
import csv
import math
import os
import sqlite3
import subprocess
import time
from pathlib import Path

FIELDS = [
    "seconds", "rss", "private", "descriptors", "own", "threads", "cpu", "database", "log", "rows", "history", "outbox", "calls", "unanswered",
    "p50", "p99", "fault"]


class Sampler:
    """Samples a process, its database and the calls that were made meanwhile into a CSV file."""

    def __init__(self, pid, ports, database, recorder, path):
        self.pid, self.ports, self.database, self.recorder = pid, ports, database, recorder
        self.start, self.samples = time.monotonic(), []
        self.file = open(path, "w", newline="")
        self.writer = csv.DictWriter(self.file, FIELDS)
        self.writer.writeheader()

    @property
    def now(self):
        return time.monotonic() - self.start

    def take(self, fault=""):
        sample = {"seconds": round(self.now, 1), **process(self.pid, self.ports), **self.database.sizes(), **self.recorder.take(), "fault": fault}
        self.samples.append(sample)
        self.writer.writerow(sample)
        self.file.flush()
        return sample

    def series(self):
        return series(self.samples)


def read(path):
    """The samples of a file."""
    with open(path, newline="") as file:
        return [{name: value if name == "fault" else float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def series(samples):
    """The seconds, and the values by name."""
    return [sample["seconds"] for sample in samples], {name: [sample[name] for sample in samples] for name in FIELDS[1:-1]}


def process(pid, ports=()):
    """Resident bytes; private bytes that the process has written, since whether pages that it only read count as private
    depends on whether the same program runs a second time; open descriptors; those that no client holds open; threads;
    seconds of CPU time. `ports` are those that the process listens on."""
    folder = Path(f"/proc/{pid}")
    open_ones, held = descriptors(folder), held_by_clients(ports)
    rollup = _fields(folder / "smaps_rollup")
    status = _fields(folder / "status")
    stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    return {
        "rss": rollup["Rss"] * 1024, "private": rollup["Private_Dirty"] * 1024,
        "descriptors": len(open_ones), "own": sum(one not in held for one in open_ones), "threads": status["Threads"],
        "cpu": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")}


def descriptors(folder):
    """The file or socket of each open descriptor."""
    found = []
    for descriptor in os.listdir(folder / "fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(folder / "fd" / descriptor))
    return found


def held_by_clients(ports):
    """The sockets of connections to these ports that their client has not closed. Clients decide how many there are; a
    connection that a client has closed counts as the process's own."""
    held = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if ports else []:
        fields = line.split()
        established, waits_for_client = fields[3] == "01", fields[3] in ("04", "05")
        if (established or waits_for_client) and int(fields[1].rpartition(":")[2], 16) in ports:
            held.add(f"socket:[{fields[9]}]")
    return held


def _fields(file):
    """The numbers in a file of names and values."""
    lines = (line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
    return {name: int(value.split()[0]) for name, value in lines if value.split() and value.split()[0].isdigit()}


#: Tables whose rows stay for a fixed time, a day at least: they grow in any run that is shorter.
HISTORY = ("device_events", "hourly_counts")
UNKNOWN = {"rows": math.nan, "history": math.nan, "outbox": math.nan}


class SQLiteFile:
    """The size of a database file and its log, and how much is in it."""

    def __init__(self, path):
        self.path = Path(path)

    def sizes(self):
        log = Path(f"{self.path}-wal")
        try:
            database = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=2)
            try:
                tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
                counts = dict(zip(tables, database.execute(
                    "SELECT " + ", ".join(f'(SELECT count(*) FROM "{table}")' for table in tables)).fetchone()))
            finally:
                database.close()
        except sqlite3.Error:
            counts = None
        return {
            "database": self.path.stat().st_size, "log": log.stat().st_size if log.exists() else 0,
            **_counts(counts)}


class PostgreSQLDatabase:
    """The same of a PostgreSQL database; the log is that of the whole server."""

    def __init__(self, url):
        self.url, self.tables = url, None

    def sizes(self):
        if not self.tables:
            names = self._query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            self.tables = names.split("\n") if names else None
        counts = ", ".join(f'(SELECT count(*) FROM "{table}")' for table in self.tables or [])
        answer = self.tables and self._query(
            f"SELECT pg_database_size(current_database()), (SELECT sum(size) FROM pg_ls_waldir()), {counts}")
        if not answer:
            return {"database": math.nan, "log": math.nan, **UNKNOWN}
        size, log, *rows = map(int, answer.split("|"))
        return {"database": size, "log": log, **_counts(dict(zip(self.tables, rows)))}

    def _query(self, sql):
        command = ["psql", "--no-psqlrc", "--tuples-only", "--no-align", self.url, "-c", sql]
        environment = {**os.environ, "PGCONNECT_TIMEOUT": "2", "PGOPTIONS": "-c statement_timeout=2000"}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=5, env=environment)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.strip() if done.returncode == 0 else None


def _counts(counts):
    """Counts rows, without those of the outbox, which come and go, and of the history, which stay for a fixed time."""
    if counts is None:
        return UNKNOWN
    outbox, history = counts.pop("outbox", 0), sum(counts.pop(table, 0) for table in HISTORY)
    return {"rows": sum(counts.values()), "history": history, "outbox": outbox}
