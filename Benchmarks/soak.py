"""Runs the service for hours under mixed load, with faults, and checks that it loses nothing and stays as it is.

A hundred calls a second, at a steady rate: encrypted and legacy registrations and notifications of Zulip's, to Apple,
Google and Web Push, with devices that die and come back; Nextcloud's push proxy; the built-in chat server, whose phones
rotate keys and tokens; an operator who looks at the pages; bad requests, and strangers' connections without a complete
request. A fault begins every minute: a provider is away, slow, loses answers or asks for pauses; the database is locked,
killed or frozen; the service is paused or reloads its configuration. The seed decides the faults and their order.

Memory, descriptors, threads, the database with its log, its rows and the outbox are sampled. The exit status is 0 only if
- every promised notification has arrived, or its device has died or signed off,
- nothing has arrived twice except around a fault,
- no living registration has ended, and every dead one has,
- no call was refused except while the database or the service was away,
- the samples are flat in the second half of the run.
"""

import argparse
import asyncio
import contextlib
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from longrun import flatness, sampler
from longrun.accounts import Ledger
from longrun.callers import BuiltIn, Encrypted, Legacy, Nextcloud, Operator, World
from longrun.faults import SCRIPT, Faults
from longrun.recorder import Recorder
from longrun.strangers import Strangers
from processes import Processes
from service import Service, Simulator

ROOT = Path(__file__).resolve().parent.parent
# A notification that has not arrived so many seconds after all faults is missing. The outbox's longest pause is shorter.
TIMEOUT = 300


def arguments():
    parser = argparse.ArgumentParser(prog="Benchmarks/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="the build to run (default: .build/release/push-bouncer, else the debug build)")
    parser.add_argument("--hours", type=float, default=1, metavar="N", help="how long (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=100, metavar="N", help="calls a second (default: %(default)s)")
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL, with a server of its own")
    parser.add_argument("--seed", type=int, help="repeats the order of the faults of a run, which prints it")
    parser.add_argument("--period", type=float, default=60, metavar="SECONDS", help="from one fault to the next (default: %(default)s)")
    parser.add_argument("--interval", type=float, default=5, metavar="SECONDS", help="from one sample to the next (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / ".build/soak", metavar="DIR", help="where samples, plot and log go (default: .build/soak)")
    parser.add_argument("--stuck", action="store_true", help="Apple goes away for good halfway: shows that a run can fail")
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("CSV", "PNG"), help="only plot a run's samples, also while it goes on, and judge them")
    parser.add_argument("--self-test", action="store_true", help="only show that a process that leaks is called not flat, and one that does not flat")
    options = parser.parse_args()
    found = [ROOT / ".build" / kind / "push-bouncer" for kind in ("release", "debug")]
    options.binary = (options.binary or next((binary for binary in found if binary.exists()), found[0])).resolve()
    if not (options.plot or options.self_test or options.binary.exists()):
        parser.error(f"there is no {options.binary}: swift build -c release --product push-bouncer makes it")
    options.seed = random.randrange(1 << 32) if options.seed is None else options.seed
    return options


class Soak:
    def __init__(self, options, folder, stack):
        self.options, self.seconds = options, options.hours * 3600
        self.engine = "postgresql" if options.postgresql else "sqlite"
        options.out.mkdir(parents=True, exist_ok=True)
        self.path = lambda ending: options.out / f"soak-{self.engine}.{ending}"
        processes, server = Processes(stack), None
        self.simulator = Simulator(options.binary, stack)
        self.simulator.call("PUT", "/faults", {"record": True})
        if options.postgresql:
            server = tempfile.mkdtemp(prefix="soak-")
            url = subprocess.run(
                [SCRIPT, "start", server, "max_wal_size=64MB", "checkpoint_timeout=60s", "autovacuum_naptime=15s"],
                check=True, capture_output=True, text=True).stdout.strip()
            stack.callback(subprocess.run, [SCRIPT, "stop", server], capture_output=True)
        (folder / "service").mkdir()
        self.service = Service(
            options.binary, folder / "service", processes, self.simulator, database=url if server else None,
            log=stack.enter_context(open(self.path("log"), "w")), settings={
                "PUSH_BOUNCER_NEXTCLOUD_ENABLED": "true", "PUSH_BOUNCER_NEXTCLOUD_ALLOW_LOCAL_PROXIES": "true",
                "PUSH_BOUNCER_NEXTCLOUD_RATE_LIMIT_PER_ADDRESS": "0", "PUSH_BOUNCER_NEXTCLOUD_NEW_DEVICES_PER_ADDRESS": "0",
                "PUSH_BOUNCER_WEBPUSH_ALLOW_PRIVATE_HOSTS": "127.0.0.1", "PUSH_BOUNCER_OPERATOR_EMAIL": "operator@example.org"})
        database = sampler.PostgreSQLDatabase(url) if server else sampler.SQLiteFile(folder / "service/bench.sqlite")
        self.recorder = Recorder()
        self.sampler = sampler.Sampler(self.service.nodes[0].pid, self.service.ports + self.service.admin_ports, database, self.recorder, self.path("csv"))
        self.faults = Faults(options.seed, options.period)
        self.faults.at(self.service, self.simulator, server)
        self.ledger = Ledger(self.faults.shaken)
        self.unopened, self.underway = [], set()

    async def run(self):
        world = World(self.service, self.simulator, self.ledger, self.recorder, self.faults.excuses, self.options.seed)
        async with world, Strangers(world) as strangers:
            self.world = world
            self.callers = encrypted, legacy, nextcloud, built_in = [
                kind(world, max(6, count * self.options.rate // 100))
                for kind, count in ((Encrypted, 300), (Legacy, 90), (Nextcloud, 60), (BuiltIn, 40))]
            for each in self.callers:
                await each.prepare()
            # Shares of a hundred; one change of a device at the built-in server takes several calls.
            mix = [
                (42, encrypted.notify), (12, legacy.notify), (12, nextcloud.notify), (10, built_in.notify), (6, encrypted.churn),
                (3, legacy.churn), (1, legacy.sign_off), (2, nextcloud.churn), (1, nextcloud.sign_off), (1, built_in.churn),
                (2, Operator(world).look), (5, strangers.call), (3, strangers.connect)]
            reader, sampling = asyncio.create_task(self.read()), asyncio.create_task(self.sample())
            troubles = asyncio.create_task(self.trouble())
            await self.load(mix)
            troubles.cancel()
            await self.end()
            sampling.cancel()
            reader.cancel()

    async def load(self, mix):
        """Begins calls at a steady rate, with at most 400 under way."""
        weights, calls = zip(*mix)
        start, begun, rate = time.monotonic(), 0, self.options.rate
        while (now := time.monotonic()) < start + self.seconds:
            while begun < (now - start) * rate:
                begun += 1
                if len(self.underway) >= 400:
                    self.recorder.skipped += 1
                    continue
                task = asyncio.create_task(self.world.random.choices(calls, weights)[0]())
                self.underway.add(task)
                task.add_done_callback(self.done)
            await asyncio.sleep(0.005)

    def done(self, task):
        self.underway.discard(task)
        if not task.cancelled() and task.exception():
            self.recorder.wrong.append(f"{task.exception()!r}")

    async def trouble(self):
        if self.options.stuck:
            await asyncio.sleep(self.seconds / 2)
            await self.faults.stay()
        else:
            await self.faults.run(self.seconds)

    async def read(self):
        """Reads arrivals into the ledger."""
        since = 0
        while True:
            answer = await self.world.control("GET", f"deliveries?since={since}&wait=5")
            since = answer["next"]
            for delivery in answer["deliveries"]:
                try:
                    self.ledger.arrive(delivery)
                except Exception as error:
                    self.unopened.append(repr(error))
            await asyncio.sleep(0.2)

    async def sample(self):
        told, turn = time.monotonic(), 0
        while True:
            turn += 1
            sample = await asyncio.to_thread(self.sampler.take, self.faults.now)
            if time.monotonic() >= told:
                told += 60
                print(
                    f"{sample['seconds']:>7.0f} s  {sample['rss'] / flatness.MB:.1f} MB, {sample['descriptors']} descriptors, "
                    f"{sample['threads']} threads, {sample['outbox']:.0f} in the outbox, p50 {sample['p50']} ms, p99 {sample['p99']} ms, "
                    f"{self.ledger.promised} promised, {len(self.ledger.waiting)} under way, {len(self.recorder.wrong)} wrong"
                    + (f"  [{sample['fault']}]" if sample["fault"] else ""), flush=True)
            await asyncio.sleep(max(0, turn * self.options.interval - self.sampler.now))

    async def end(self):
        """Ends the faults, and waits for owed notifications. Dead devices are notified until an answer calls each dead."""
        if self.underway:
            await asyncio.wait(self.underway)
        if not self.options.stuck:
            await self.faults.set({})
        deadline = time.monotonic() + (30 if self.options.stuck else TIMEOUT)
        while time.monotonic() < deadline:
            untold = self.untold()
            for caller in {caller for caller, _ in untold}:
                await caller.notify()
            if not self.ledger.settle() and not untold and self.outbox() == 0:
                break
            await asyncio.sleep(0.5 if not untold else 0.02)

    def untold(self):
        return [
            (caller, device) for caller in self.callers[:3] for device in caller.devices if not device.state.alive and not device.told]

    def outbox(self):
        return self.sampler.database.sizes()["outbox"]

    def verdict(self):
        """Prints the result. Returns whether all is well."""
        ledger, recorder = self.ledger, self.recorder
        owed, untold, outbox = ledger.settle(), len(self.untold()), self.outbox()
        faults = [name for name, *_ in self.faults.history]
        node = self.service.nodes[0]
        node.send_signal(signal.SIGTERM)
        status = node.wait(60)
        print(f"\n{sum(recorder.calls.values())} calls, {len(faults)} faults of {len(set(faults))} kinds, {recorder.skipped} calls not made because too many were under way")
        checks = [
            (f"{ledger.promised} notifications promised: {ledger.promised - ledger.ended - owed} arrived, {ledger.ended} ended with their device, {owed} are missing", owed == 0),
            (f"{ledger.twice} arrived more than once, {len(ledger.unexplained)} of them without a fault near", not ledger.unexplained),
            (f"{len(ledger.wrongly_ended)} living registrations ended, {untold} dead ones did not", not ledger.wrongly_ended and not untold),
            (f"{len(recorder.wrong)} calls answered as they should not be, {recorder.excused} more while the database or the service was away", not recorder.wrong),
            (f"{len(self.unopened)} notifications that could not be opened", not self.unopened),
            (f"{outbox:.0f} notifications left in the outbox", outbox == 0),
            (f"the service ended with {status}", status == 0)]
        for text, is_well in checks:
            print(f"{'ok  ' if is_well else 'FAIL'} {text}")
        for problem in recorder.wrong[:20] + self.unopened[:5] + ledger.unexplained[:5]:
            print(f"     {problem}")
        return all(is_well for _, is_well in checks)


def tell(verdicts):
    """Prints the verdicts. Returns whether all are flat; a run that is too short to judge is no failure."""
    if verdicts is None:
        print("too short to say whether it is flat")
        return True
    print("second half       level        rise of its bound")
    for verdict in verdicts:
        print(verdict)
    return all(verdict.is_flat for verdict in verdicts)


def draw(samples, path, title):
    import plot  # Imported here, since loading matplotlib takes long.
    seconds, series = sampler.series(samples)
    hours = [second / 3600 for second in seconds]
    line = lambda name, scale=1: (hours, [value / scale for value in series[name]])
    shades, step = [], (hours[-1] - hours[0]) / max(1, len(hours) - 1)
    for hour, sample in zip(hours, samples):
        if sample["fault"]:
            if shades and hour - shades[-1][1] <= 1.5 * step:
                shades[-1][1] = hour
            else:
                shades.append([hour, hour])
    cpu = [0] + [(later["cpu"] - earlier["cpu"]) / max(0.001, later["seconds"] - earlier["seconds"]) for earlier, later in zip(samples, samples[1:])]
    plot.write(path, title, [
        plot.Panel("memory, MB", {"resident": line("rss", flatness.MB), "private": line("private", flatness.MB)}),
        plot.Panel("descriptors, threads", {
            "descriptors": line("descriptors"), "those that no client holds": line("own"), "threads": line("threads")}),
        plot.Panel("database, MB", {"database": line("database", flatness.MB), "its log": line("log", flatness.MB)}),
        plot.Panel("rows", {"rows": line("rows"), "those that stay for a day": line("history")}),
        plot.Panel("in the outbox", {"outbox": line("outbox")}),
        plot.Panel("latency, ms", {"p50": line("p50"), "p99": line("p99")}, log=True),
        plot.Panel("cores", {"cores": (hours, cpu)}),
    ], "hours (grey: a fault)", shades=[tuple(shade) for shade in shades], height=1.5)


def self_test():
    """Checks that a process that leaks memory and descriptors is called not flat, and one that leaks nothing flat."""
    leaking = "kept = []\nimport time\nwhile True:\n  kept.append((bytearray(b'x' * 400_000), open('/dev/null')))\n  time.sleep(0.05)"
    steady = "import time\nwhile True:\n  kept = bytearray(b'x' * 400_000), open('/dev/null')\n  time.sleep(0.05)"
    failed = False
    for name, program, expected in (("leaking", leaking, {"rss", "private", "own"}), ("steady", steady, set())):
        process = subprocess.Popen([sys.executable, "-c", program])
        try:
            samples = []
            for number in range(50):
                # There is no database, so its series are constant.
                samples.append({"seconds": number, **sampler.process(process.pid), "database": 1e6, "log": 0.0, "rows": 100, "history": 0, "outbox": 0})
                time.sleep(0.04)
        finally:
            process.kill()
            process.wait()
        series = {field: [sample[field] for sample in samples] for field in samples[0]}
        verdicts = flatness.judge([sample["seconds"] for sample in samples], series, least=(20, 20))
        found = {verdict.name for verdict in verdicts if not verdict.is_flat}
        failed |= found != expected
        print(f"{'ok  ' if found == expected else 'FAIL'} a {name} process: {', '.join(sorted(found)) or 'nothing'} is not flat (own: descriptors)")
    return 1 if failed else 0


def main():
    options = arguments()
    if options.self_test:
        return self_test()
    if options.plot:
        samples = sampler.read(options.plot[0])
        draw(samples, options.plot[1], options.plot[0].stem)
        return 0 if tell(flatness.judge(*sampler.series(samples))) else 1
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; {options.hours:g} hours at {options.rate} calls a second on "
        f"{'PostgreSQL' if options.postgresql else 'SQLite'}; --seed {options.seed}\n{options.binary}", flush=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="push-bouncer-soak-")))
        soak = Soak(options, folder, stack)
        asyncio.run(soak.run())
        is_well = soak.verdict()
        samples = soak.sampler.samples
        # Samples after the end of the load do not count.
        loaded = [sample for sample in samples if sample["seconds"] <= soak.seconds]
        is_well &= tell(flatness.judge(*sampler.series(loaded)))
        draw(samples, soak.path("png"), f"{options.hours:g} hours of mixed load on {'PostgreSQL' if options.postgresql else 'SQLite'}, {options.rate} calls a second")
        print(f"samples, plot and log: {soak.path('*')}")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
