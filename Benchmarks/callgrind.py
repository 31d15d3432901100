"""Programs that run under callgrind: what they have used is instructions, and where they have used them."""

import collections
import dataclasses
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from processes import Processes, cpu_seconds

# The first identifier of a mangled name of Swift is its module: its length, then itself.
SWIFT = re.compile(r"\$[sS](\d+)(\w+)")


class Callgrind(Processes):
    """Counts from `begin` on, so that programs start fast. `last` is the file that says what was done between the last two calls
    of `used`, or in the last call of `run`."""

    def __init__(self, stack, folder):
        super().__init__(stack)
        self.folder, self.counts, self.last = folder, {}, None

    def command(self, command, file, *options):
        return ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={self.folder}/{file}", *options, *command]

    def start(self, command, **options):
        # Swift's dictionaries have another order in each process otherwise.
        environment = {**(options.pop("env", None) or os.environ), "SWIFT_DETERMINISTIC_HASHING": "1"}
        return super().start(self.command(command, "%p", "--instr-atstart=no"), env=environment, **options)

    def begin(self, process):
        control(process, "--instr=on")
        count = self.counts[process.pid] = Count(self.folder / str(process.pid), time.monotonic())
        self.used(process)
        time.sleep(3)
        before, since = count.instructions, count.at
        self.used(process)
        count.idle = (count.instructions - before) / (count.at - since)

    def run(self, command):
        """Runs a program to its end, which is counted from its beginning."""
        self.last = self.folder / "run"
        output, _ = super().run(self.command(command, self.last.name))
        return output, total(self.last)

    def used(self, process):
        """The instructions of a process since `begin`, without those that it needs each second when there is nothing to do: how
        many seconds a load takes depends on the machine."""
        settle(process.pid)
        control(process, "--dump")
        count = self.counts[process.pid]
        self.last = count.take(time.monotonic())
        return count.instructions


@dataclasses.dataclass
class Count:
    """The instructions of a process, as its dumps say them."""

    files: Path
    at: float
    dumps: int = 0
    instructions: float = 0
    idle: float = 0              # a second

    def take(self, now):
        """Adds those of the next dump, which was made just now. Returns its file."""
        self.dumps += 1
        file = Path(f"{self.files}.{self.dumps}")
        self.instructions += total(file) - self.idle * (now - self.at)
        self.at = now
        return file


def control(process, option):
    subprocess.run(["callgrind_control", option, str(process.pid)], check=True, capture_output=True)


def settle(pid):
    """Waits until a process has nothing more to do; ten seconds at most, since it may have something each second."""
    for _ in range(40):
        before = cpu_seconds(pid)
        time.sleep(0.25)
        if cpu_seconds(pid) == before:
            return


def total(file):
    with open(file) as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))


def profile(file):
    """The instructions of each function itself, and how often it was called: two counters by object and name."""
    names = {"ob": {}, "fn": {}}
    costs, calls = collections.Counter(), collections.Counter()
    here, called, skip = {}, {}, False

    def name(kind, text):
        """A name is written once, and has a number from then on."""
        number, _, written = text.partition(" ")
        return names[kind].setdefault(number, written)

    with open(file) as lines:
        for line in lines:
            word, equals, text = line.rstrip("\n").partition("=")
            if equals and word in ("ob", "fn"):
                here[word] = name(word, text)
                called["ob"] = here.get("ob")
            elif equals and word in ("cob", "cfn"):
                called[word[1:]] = name(word[1:], text)
            elif equals and word == "calls":
                calls[called["ob"], called["fn"]] += int(text.split()[0])
                called["ob"], skip = here["ob"], True
            elif line[:1] in "+-*0123456789" and here:
                # The line after `calls` has what was spent there.
                if not skip:
                    costs[here["ob"], here["fn"]] += int(line.split()[1])
                skip = False
    return costs, calls


def module(object, function, program):
    """Where a function is from: a library, or a module of the program itself."""
    if object != program:
        return re.sub(r"\.so.*", "", Path(object).name) or "the program loader"
    if found := SWIFT.match(function):
        return found[2][:int(found[1])]
    if function.startswith(("$ss", "$sS", "$sx", "$sq")):
        return "Swift's library, specialised"
    if "BoringSSL" in function or "bssl" in function:
        return "BoringSSL"
    return "C and what the compiler makes"


def demangle(names):
    """Names as they are written in the sources."""
    output = subprocess.run(["swift", "demangle", "--simplified"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, output.splitlines(), strict=True))


def stripped(program, folder):
    """A copy without the debug information, which valgrind cannot read."""
    copy = folder / Path(program).name
    subprocess.run(["strip", "--strip-debug", "-o", copy, shutil.which(program)], check=True)
    return copy
