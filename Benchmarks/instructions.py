"""Counts the instructions of push-bouncer for each push, by callgrind.

Times differ by two from machine to machine, and with whatever else runs. Instructions differ by three in a hundred at 64 at once,
where requests share wake-ups and writes by chance, and by one in a hundred where requests come alone, as with --check. They are those of the process outside the kernel. Beside it nghttpx as a relay and h2load as a client do the same pushes.
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import callgrind
import load
from bench import ROOT, Bench, Case, check_binaries, machine, print_table

KEPT = Path(__file__).parent / "kept.json"
TOLERANCE, TOLERANCE_ELSEWHERE = 1.05, 1.5
CHECKED = ["registration", "notification, 1 a request", "notification, 20 a request", "sealed here, 5 devices", "Web Push in"]


def arguments():
    parser = argparse.ArgumentParser(prog="Benchmarks/instructions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / ".build/release/push-bouncer", help="the build to count (default: .build/release/push-bouncer)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is counted (default: %(default)s)")
    parser.add_argument("--pushes", type=int, default=800, help="how many a case has in a round, at least (default: %(default)s)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose names have this text alone; may be given several times")
    parser.add_argument("--postgresql", action="store_true", help="the same on PostgreSQL")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="where a push's instructions are: all modules, and the N functions with the most")
    parser.add_argument("--keep", action="store_true", help=f"a short run whose figures go to {KEPT.name}, to be compared with later")
    parser.add_argument("--check", action="store_true", help=f"a short run that fails where a case costs more than {TOLERANCE} times what {KEPT.name} says")
    options = parser.parse_args()
    check_binaries(parser, [options.binary])
    options.build = "release" if "release" in str(options.binary.resolve()) else "debug"
    if options.check and options.build not in (json.loads(KEPT.read_text()) if KEPT.exists() else {}):
        parser.error(f"{KEPT.name} has no {options.build} build: --keep writes it")
    options.floor = not options.keep and not options.check
    options.at_once = 64
    if not options.floor:
        # Requests that come alone cost the same each time. Many at once share wake-ups and writes, by chance.
        options.rounds, options.pushes, options.at_once = 1, 100, 1
    options.clients = options.peers = options.sygnal = None
    options.nodes, options.prefill = 1, [0]
    return options


class Instructions(Bench):
    """The amount of a round is a number of requests."""

    phones, apps = 100, 60

    def __init__(self, options, folder, stack):
        programs = folder / "programs"
        programs.mkdir()
        options.binary = [callgrind.stripped(options.binary.resolve(), programs)]
        super().__init__(options, folder, stack, callgrind.Callgrind(stack, programs))
        self.opened = {}

    def run(self):
        for who, service, database in self.services():
            self.cases_of(who, service, database)
            self.processes.begin(service.nodes[0])
        if self.options.floor:
            self.cases_of_floor()
        for case in self.cases:
            self.measure(case, self.requests(case) // 2)
            for _ in range(self.options.rounds):
                self.round(case)

    def round(self, case):
        case.rounds.append({**self.measure(case, self.requests(case)), "dump": self.processes.last})

    def wanted(self, who, what):
        # Thousands that wait at once would come too late, as slow as callgrind is.
        return super().wanted(who, what) and "50" not in what if self.options.floor else what in CHECKED

    def requests(self, case):
        if not case.who.startswith("push-bouncer"):
            return 5 * self.options.pushes
        return max(10, 3 * self.options.at_once, self.options.pushes // case.per_request)

    def cases_of_floor(self):
        h2load, nghttpx = self.floor(self.iphones_and_requests()[1])
        self.processes.begin(nghttpx.process)

        def client(amount):
            # The first 64 cost what starting costs.
            before = h2load.used
            h2load.send(64, math.nan, "--requests=64")
            start = h2load.used - before
            done = h2load.send(64, math.nan, f"--requests={64 + amount}")
            h2load.used -= 2 * start
            return dataclasses.replace(done, requests=done.requests - 64)

        relay = lambda amount: self.closed(self.folder, [nghttpx.target], 64, amount)
        self.cases += [Case(h2load.name, "a push", client, h2load), Case(nghttpx.name, "a push", relay, nghttpx)]

    def closed(self, folder, targets, at_once, amount):
        return self.connections(targets[0].origin).send(targets[0], math.inf, amount, at_once=at_once)

    def paced(self, target, rate, amount):
        # There is no rate yet while it warms up.
        return self.connections(target.origin).send(target, rate or math.inf, amount)

    def connections(self, origin):
        """The same for all cases and rounds: opening one costs more than a request."""
        if origin not in self.opened:
            self.opened[origin] = load.Connections(origin, self.options.at_once)
            self.stack.callback(self.opened[origin].close)
        return self.opened[origin]

    def most(self, amount):
        return amount

    # What is printed and kept.

    def report(self):
        print(f"\n{machine(self.options.binary, 'instructions')}\n")
        beside = [case for case in self.cases if not case.who.startswith("push-bouncer")]
        rows = []
        for case in self.cases:
            least, most = case.spread("cpu")
            rows.append([
                case.who, case.what, f"{case.median('cpu'):,.0f}", f"{least:,.0f} to {most:,.0f}",
                *(f"{case.median('cpu') / peer.median('cpu'):.1f}" for peer in beside)])
        print_table(["who", "what", "instructions each", "the rounds", *(f"times {peer.who}" for peer in beside)], rows)
        if self.options.profile:
            for case in self.cases:
                self.report_profile(case)

    def report_profile(self, case):
        """Where the instructions of the last round are, for each operation."""
        costs, calls = callgrind.profile(case.rounds[-1]["dump"])
        operations = case.rounds[-1]["operations"]
        program, whole = str(self.options.binary[0]), sum(costs.values())
        modules = collections.Counter()
        for (object, function), cost in costs.items():
            modules[callgrind.module(object, function, program)] += cost
        row = lambda cost: [f"{cost / operations:,.0f}", f"{100 * cost / whole:.1f}"]
        print(f"{case.who}, {case.what}\n")
        heads = ["instructions each", "%"]
        print_table(["module", *heads], [[name, *row(cost)] for name, cost in modules.most_common() if cost > whole / 1000])
        most = costs.most_common(self.options.profile)
        names = callgrind.demangle([function for (_, function), _ in most])
        print_table(["function", *heads, "calls each"], [
            [names[function][:150], *row(cost), f"{calls[object, function] / operations:,.1f}"] for (object, function), cost in most])

    def costs(self):
        """Of several rounds the least: what goes wrong, and is tried again, only adds to it."""
        return {case.what: round(case.spread("cpu")[0]) for case in self.cases}

    def keep(self):
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        kept[self.options.build] = {"where": where(), "instructions": self.costs()}
        KEPT.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")

    def check(self):
        """Whether every case costs about what is kept."""
        kept = json.loads(KEPT.read_text())[self.options.build]
        tolerance = TOLERANCE
        if kept["where"] != where():
            tolerance = TOLERANCE_ELSEWHERE
            print(f"{KEPT.name} is of {kept['where']}, this is {where()}: {tolerance} times as much is tolerated")
        for _ in range(3):
            times = {what: cost / kept["instructions"][what] for what, cost in self.costs().items()}
            if max(times.values()) <= tolerance:
                break
            for case in self.cases:
                if times[case.what] > tolerance:
                    self.round(case)
        for what, factor in times.items():
            verdict = f": more than {tolerance} times, which --keep would keep" if factor > tolerance else ""
            print(f"{what}: {self.costs()[what]:,} instructions, {factor:.3f} times what {KEPT.name} says{verdict}")
        return max(times.values()) <= tolerance


def where():
    """What decides on the number of instructions beside the program: compiler, libraries, processor and event loops."""
    swift = re.search(r"Swift version (\S+)", subprocess.run(["swift", "--version"], capture_output=True, text=True, check=True).stdout)[1]
    return f"Swift {swift}, {' '.join(platform.libc_ver())}, {platform.machine()}, {os.cpu_count()} cores"


def main():
    options = arguments()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="push-bouncer-bench-")))
        bench = Instructions(options, folder, stack)
        bench.run()
        bench.report()
        if options.keep:
            bench.keep()
        if options.check and not bench.check():
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
