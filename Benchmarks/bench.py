"""Measures push-bouncer on this machine: CPU time, rate, latency and memory, against others where wanted.

All cases run once in each round, in random order but for those of one kind, which follow each other, after a first round that does
not count. Compare only figures of one run.
The figures are medians of the rounds, with the smallest and the largest. CPU time is that of the measured process
alone. The load, the provider simulator and the database run on the same cores, so the rates are lower bounds.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import math
import os
import platform
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import load
import peers
from conformance.limits import TIMEOUT
from conformance.phones import encode, encode_url
from processes import Processes, tree_cpu_seconds
from service import Service, Simulator

ROOT = Path(__file__).resolve().parent.parent
# The machine's load before the run.
LOAD = os.getloadavg()[0]


def arguments():
    parser = argparse.ArgumentParser(prog="Benchmarks/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", action="append", help="a build to measure; several are compared (default: .build/release/push-bouncer)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each case is measured (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="how long a case takes in a round (default: %(default)s)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose names have this text alone; may be given several times")
    parser.add_argument("--floor", action="store_true", help="h2load and nghttpx on the same simulator, at 1, 8 and 64 at once: what no client and no relay costs less than")
    parser.add_argument("--clients", metavar="CLIENT_BENCH", help="clients of HTTP/2 alone on the same simulator, at 1, 8 and 64 at once: ours and AsyncHTTPClient in this build of client-bench, and libcurl")
    parser.add_argument("--peers", action="store_true", help="aioapns and firebase-admin on the same simulator, at 1, 8 and 64 at once")
    parser.add_argument("--sygnal", metavar="DIR", help="Sygnal from this checkout, too, in a Python of its own")
    parser.add_argument("--postgresql", action="store_true", help="the same on PostgreSQL, its own CPU time apart")
    parser.add_argument("--nodes", type=int, default=1, help="nodes that share a PostgreSQL database (default: %(default)s)")
    parser.add_argument("--prefill", default="0", metavar="N[,N...]", help="registrations that are there already; several are compared (default: none)")
    options = parser.parse_args()
    options.binary = [Path(binary).resolve() for binary in options.binary or [ROOT / ".build/release/push-bouncer"]]
    options.prefill = [int(count) for count in options.prefill.split(",")]
    if options.nodes > 1 and not options.postgresql:
        parser.error("--nodes needs --postgresql: several nodes share no SQLite file")
    check_binaries(parser, options.binary)
    return options


def check_binaries(parser, binaries):
    for binary in binaries:
        if not binary.exists():
            parser.error(f"there is no {binary}: swift build -c release --product push-bouncer makes it")


@dataclasses.dataclass
class Case:
    """A case that is measured once in each round."""

    who: str
    what: str
    run: object                  # amount -> load.Load
    meter: object                # cpu(), memory()
    per_request: int = 1
    at_once: int = 64
    pushes: bool = True          # whether each operation must arrive at the simulator
    database: object = None      # -> CPU seconds of the database's server
    prepare: object = None       # called before, not measured
    may_refuse: bool = False     # whether refusals are counted, instead of ending the run
    rounds: list = dataclasses.field(default_factory=list)

    def median(self, figure):
        return statistics.median(round[figure] for round in self.rounds)

    def spread(self, figure):
        figures = [round[figure] for round in self.rounds]
        return min(figures), max(figures)


class Bench:
    phones, apps, at_once = 400, 1_500, (1, 8, 64)

    def __init__(self, options, folder, stack, processes=None):
        self.options, self.folder, self.processes = options, folder, processes or Processes(stack)
        self.stack, self.random, self.cases = stack, random.Random(1), []
        self.simulator = Simulator(options.binary[0], stack)
        self.payload = {"push_key_id": 10, "encrypted_data": encode(self.random.randbytes(400))}
        self.memory = {}

    def run(self):
        services = self.services()
        for who, service, database in services:
            self.cases_of(who, service, database)
        if self.options.floor or self.options.clients or self.options.peers or self.options.sygnal:
            self.cases_of_one_provider(services[0][1])
            self.cases_of_peers()
        self.memory = {who: {"idle": service.memory(), "own": service.own_memory()} for who, service, _ in services}
        for case in self.cases:
            self.measure(case, self.options.seconds)
        for _ in range(self.options.rounds):
            self.round()
        self.cases.sort(key=lambda case: (case.who, case.what, case.at_once))
        for who, service, _ in services:
            self.memory[who]["end"] = service.memory()
        self.report()

    def round(self):
        """Measures the cases in random order. Those of one kind come one after the other, and in the next round another one of
        them first: what a case costs depends on what came before it, by a quarter."""
        kinds = {}
        for case in self.cases:
            kinds.setdefault((case.what, case.at_once), []).append(case)
        kinds = list(kinds.values())
        self.random.shuffle(kinds)
        for cases in kinds:
            first = len(cases[0].rounds) % len(cases)
            for case in cases[first:] + cases[:first]:
                case.rounds.append(self.measure(case, self.options.seconds))

    def services(self):
        """Starts each build with each number of registrations, on SQLite and, where wanted, on PostgreSQL."""
        found = []
        for number, binary in enumerate(self.options.binary):
            for prefill in self.options.prefill:
                for postgresql in [False, True] if self.options.postgresql else [False]:
                    words = ["PostgreSQL" if postgresql else "SQLite"]
                    words += [f"build {number + 1}"] if len(self.options.binary) > 1 else []
                    words += [f"{prefill:,} there"] if len(self.options.prefill) > 1 else []
                    words += [f"{self.options.nodes} nodes"] if postgresql and self.options.nodes > 1 else []
                    folder = self.folder / f"service{len(found)}"
                    folder.mkdir()
                    url, database = self.postgresql() if postgresql else (None, None)
                    nodes = self.options.nodes if postgresql else 1
                    service = Service(binary, folder, self.processes, self.simulator, url, nodes, prefill)
                    found.append(("push-bouncer, " + ", ".join(words), service, database))
        return found

    def postgresql(self):
        # Not within our folder, since PostgreSQL runs as another user.
        script, directory = ROOT / "Scripts/proof/postgresql", tempfile.mkdtemp(prefix="push-bouncer-bench-")
        url = subprocess.run([script, "start", directory, "fsync=on"], capture_output=True, text=True, check=True).stdout.strip()
        self.stack.callback(subprocess.run, [script, "stop", directory])
        pid = int((Path(directory) / "data/postmaster.pid").read_text().split()[0])
        return url, lambda: tree_cpu_seconds(pid)

    def cases_of(self, who, service, database):
        tokens = service.register(self.phones)
        notifications = lambda per_request, tokens=tokens: service.notifications(tokens, per_request, self.payload)

        def add(what, make, per_request=1, at_once=64):
            """Adds a case if it is wanted, with the targets that `make` makes once."""
            if self.wanted(who, what):
                targets = make()
                run = lambda amount: self.closed(service.folder, targets, at_once, amount)
                self.cases.append(Case(who, what, run, service, per_request, at_once, database=database))

        self.add_registrations(who, service, database)
        for per_request in (1, 2, 20):
            add(f"notification, {per_request} a request", lambda: notifications(per_request), per_request)
        add("Web Push, 20 a request", lambda: notifications(20, service.register_web(self.phones // 4)), 20, at_once=8)
        # A phone gets 240 messages a minute at once, and further ones at that pace.
        add("Web Push in", lambda: service.gateway_messages(self.apps))
        for devices in (1, 5, 50):
            add(f"sealed here, {devices} device" + "s" * (devices > 1), lambda: service.sealed_notifications(devices), devices)
        self.add_half_rate(who, service, notifications(1), database)

    def add_registrations(self, who, service, database):
        """Adds registrations, which are new ones each time."""
        run = lambda amount: self.closed(service.folder, service.registrations(self.most(amount))[0], 64, amount)
        if self.wanted(who, "registration"):
            self.cases.append(Case(who, "registration", run, service, pushes=False, database=database, prepare=service.forget_new))

    def add_half_rate(self, who, service, targets, database):
        """Adds a load at half of the highest rate that was measured, whether or not the service keeps up."""
        what = "notification, 1 a request, at half of the highest rate"

        def run(amount):
            full = [case for case in self.cases if case.who == who and case.what == "notification, 1 a request" and case.rounds]
            return self.paced(targets[0], max(round["rate"] for round in full[0].rounds) / 2 if full else None, amount)

        if self.wanted(who, what):
            self.cases.append(Case(who, what, run, service, database=database))

    def wanted(self, who, what):
        return not self.options.only or any(text in f"{who}, {what}" for text in self.options.only)

    # The loads of a round, whose amount is seconds.

    def closed(self, folder, targets, at_once, amount):
        return load.closed(folder, targets, at_once, amount)

    def paced(self, target, rate, amount):
        return load.open_loop(target, rate or 500, amount)

    def most(self, amount):
        """More requests than there can be in a round."""
        return 9_000 * amount

    def cases_of_one_provider(self, service):
        tokens = {kind: service.register(100, share) for kind, share in (("APNs", 0), ("FCM", 1))}
        for kind, kind_tokens in tokens.items():
            for per_request, at_once in ((1, 1), (1, 8), (1, 64), (2, 64), (20, 64)):
                who, what = f"push-bouncer, {kind} alone", f"{per_request} a request"
                targets = service.notifications(kind_tokens, per_request, self.payload)
                run = lambda amount, targets=targets, at_once=at_once: self.closed(service.folder, targets, at_once, amount)
                if self.wanted(who, what):
                    self.cases.append(Case(who, what, run, service, per_request, at_once))

    def cases_of_peers(self):
        iphones, requests = self.iphones_and_requests()
        androids = [encode_url(self.random.randbytes(105)) for _ in range(100)]
        common = (self.folder, self.processes, self.simulator)
        others = []
        if self.options.clients:
            others += peers.clients(requests, self.processes, self.simulator, Path(self.options.clients).resolve())
        if self.options.floor:
            others += self.floor(requests)
        if self.options.peers:
            others += [peers.aioapns(*common, iphones, self.payload), peers.firebase_admin(*common, androids, self.payload)]
        if self.options.sygnal:
            others += [peers.Sygnal(self.options.sygnal, *common, iphones, self.payload)]
        for peer in others:
            for at_once in self.at_once:
                run = lambda amount, peer=peer, at_once=at_once: peer.run(at_once, amount)
                if self.wanted(peer.name, "a push"):
                    self.cases.append(Case(peer.name, "a push", run, peer, at_once=at_once, may_refuse=True))

    def iphones_and_requests(self):
        iphones = [self.random.randbytes(32).hex() for _ in range(100)]
        return iphones, peers.APNsRequests(self.folder, self.simulator, iphones, self.payload)

    def floor(self, requests):
        return [peers.H2load(requests, self.processes), peers.Nghttpx(requests, self.processes)]

    def measure(self, case, amount):
        if case.prepare:
            case.prepare()
        arrived, cpu, database = self.simulator.count(), case.meter.cpu(), case.database() if case.database else 0
        result = case.run(amount)
        operations = result.requests * case.per_request
        # A notification that is in the outbox counts when it has arrived.
        deadline = time.monotonic() + TIMEOUT
        while case.pushes and self.simulator.count() - arrived < operations and time.monotonic() < deadline:
            time.sleep(0.05)
        cpu, database = case.meter.cpu() - cpu, (case.database() if case.database else 0) - database
        arrived = self.simulator.count() - arrived
        failures = result.failures
        if result.refused and not case.may_refuse:
            failures += f" {result.refused} were refused"
        if failures or not operations:
            raise SystemExit(f"{case.who}, {case.what}: {failures or 'nothing was done'}")
        if case.pushes and arrived < operations:
            raise SystemExit(f"{case.who}, {case.what}: {arrived} of {operations} arrived")
        return {
            "operations": operations, "cpu": cpu / operations, "database": database / operations, "rate": operations / result.elapsed,
            "p50": result.p50, "p99": result.p99, "memory": case.meter.memory(), "refused": result.refused}

    def report(self):
        print(f"\n{machine(self.options.binary)}\n")
        heads = ["who", "what", "at once", "CPU, µs each", "a second", "p50, ms", "p99, ms", "MB"]
        heads += ["database's CPU, µs"] if self.options.postgresql else []
        rows = []
        for case in self.cases:
            least, most = case.spread("cpu")
            rows.append([
                case.who, case.what, str(case.at_once), f"{case.median('cpu') * 1e6:.1f} ({least * 1e6:.1f} to {most * 1e6:.1f})",
                f"{case.median('rate'):,.0f}", *(self.cell(case.median(figure), 1e3, 1) for figure in ("p50", "p99")),
                self.cell(case.median("memory"))])
            if self.options.postgresql:
                rows[-1].append(f"{case.median('database') * 1e6:.1f}" if case.database else "")
        print_table(heads, rows)
        for case in self.cases:
            if refused := sum(round["refused"] for round in case.rounds):
                print(f"{case.who}, {case.at_once} at once: {refused:,} more requests were refused, in all rounds together")
        for who, memory in self.memory.items():
            print(f"memory of {who}: {memory['idle']:.0f} MB idle, {memory['own']:.0f} MB of these its own, {memory['end']:.0f} MB at the end")

    @staticmethod
    def cell(value, times=1, digits=0):
        return "" if math.isnan(value) else f"{value * times:.{digits}f}"


def print_table(heads, rows):
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    for row in [heads, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(text.ljust(width) for text, width in zip(row, widths)) + " |")
    print()


def machine(binaries, script="run"):
    """The machine, the versions and the command, without which a figure means nothing."""
    def version(*command):
        try:
            found = re.search(r"\d+(\.\d+)+", subprocess.run(command, capture_output=True, text=True).stdout)
        except OSError:
            return None
        return found and found[0]

    with open("/proc/cpuinfo") as lines:
        processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    builds = [subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.strip() for binary in binaries]
    versions = {"PostgreSQL": version("psql", "--version"), "wrk": version("wrk", "--version"), "Python": platform.python_version()}
    for package in ("aioapns", "firebase-admin"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    words = (Path(word).name if word.startswith("/") else word for word in sys.argv[1:])
    return "\n".join([
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores of {processor}, Linux {platform.release()}, load {LOAD:.1f} before",
        ", ".join(builds + [f"{name} {number}" for name, number in versions.items() if number]),
        shlex.join([f"Benchmarks/{script}", *words])])


def main():
    options = arguments()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="push-bouncer-bench-")))
        Bench(options, folder, stack).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
