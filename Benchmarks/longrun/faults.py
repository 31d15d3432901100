"""The faults of a long run: one at a time, in an order that the seed decides."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "Scripts/proof/postgresql"

# Faults of one provider, by the simulator's names.
AT_PROVIDERS = {
    "away": {"outage": True},
    "slow": {"latency_ms": 5000},
    "refuses streams": {"rst_every": 7},
    "breaks streams": {"rst_every": 9, "rst_code": "INTERNAL_ERROR"},
    "drops connections": {"drop_every": 9},
    "loses answers": {"lose_answer_every": 11},
    "never answers some": {"never_answer_every": 13},
    "vanishes": {"freeze_every": 40},
    "says 429": {"status": 429, "retry_after": 5, "every": 2},
    "says 503": {"status": 503},
    "answers in HTML": {"status": 502, "html": True, "every": 3},
    "closes connections": {"goaway_every": 20},
}
PROVIDERS = ("apns", "fcm", "webpush")


class Faults:
    """The faults of a run. One begins every `period` seconds, and lasts for a third of that at most."""

    def __init__(self, seed, period):
        self.random, self.period = random.Random(seed), period
        self.now, self.history = "", []
        self.server = self.service = self.simulator = None

    def at(self, service, simulator, server=None):
        """`server` is the folder of PostgreSQL."""
        self.service, self.simulator, self.server = service, simulator, server

    def kinds(self):
        faults = [(f"{provider} {name}", self.simulated({provider: fault})) for name, fault in AT_PROVIDERS.items() for provider in PROVIDERS]
        faults += [("all providers away", self.simulated({"outage": True})), ("Google's OAuth says 503", self.simulated({"oauth_status": 503}))]
        own = [("configuration read again", self.reload), ("service paused", self.pause)]
        if self.server:
            own += [("database killed", self.kill_database), ("database frozen", self.freeze_database)]
        else:
            own += [("database locked", self.lock_database)]
        # The faults of the service and its database come more often, since there are many more of providers.
        faults += own * 4
        self.random.shuffle(faults)
        return faults

    async def run(self, seconds):
        start, upcoming = time.monotonic(), []
        while time.monotonic() + self.period < start + seconds:
            await asyncio.sleep(self.period / 2)
            upcoming = upcoming or self.kinds()
            name, fault = upcoming.pop()
            await self.during(name, fault, self.period / 3)
            await asyncio.sleep(self.period / 6)

    async def during(self, name, fault, seconds):
        self.now = name
        entry = [name, time.monotonic(), None]
        self.history.append(entry)
        try:
            await fault(seconds)
        finally:
            entry[2] = time.monotonic()
            self.now = ""

    async def stay(self):
        """Ends Apple's service for good, to show that a run can fail."""
        await self.during("apns away for good", self.for_good, 0)

    async def for_good(self, _):
        await self.set({"apns": {"outage": True}})
        await asyncio.sleep(float("inf"))

    def shaken(self, start, end):
        """Whether there was a fault between these times, or shortly before."""
        return any(begun <= end and (ended is None or ended + 20 >= start) for _, begun, ended in self.history)

    def excuses(self, start, end):
        """Whether the service could not answer then, because the database or itself had a fault. A provider's is no excuse."""
        return any(
            begun <= end and (ended is None or ended + 15 >= start) for name, begun, ended in self.history
            if name.startswith(("database", "service")))

    async def set(self, faults):
        await asyncio.to_thread(self.simulator.call, "PUT", "/faults", {"record": True, **faults})

    def simulated(self, faults):
        async def last(seconds):
            await self.set(faults)
            await asyncio.sleep(seconds)
            await self.set({})
        return last

    async def reload(self, seconds):
        for _ in range(5):
            self.service.nodes[0].send_signal(signal.SIGHUP)
            await asyncio.sleep(min(1, seconds / 5))

    async def pause(self, seconds):
        self.service.nodes[0].send_signal(signal.SIGSTOP)
        await asyncio.sleep(min(3, seconds))
        self.service.nodes[0].send_signal(signal.SIGCONT)

    async def lock_database(self, seconds):
        def lock():
            database = sqlite3.connect(self.service.folder / "bench.sqlite", timeout=10, isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
            time.sleep(min(5, seconds))
            database.execute("ROLLBACK")
            database.close()
        await asyncio.to_thread(lock)

    async def kill_database(self, seconds):
        for command in ("kill", "start"):
            await asyncio.to_thread(subprocess.run, [SCRIPT, command, self.server], check=True, capture_output=True)

    async def freeze_database(self, seconds):
        for command in ("freeze", "thaw"):
            await asyncio.to_thread(subprocess.run, [SCRIPT, command, self.server], check=True, capture_output=True)
            await asyncio.sleep(min(5, seconds))
