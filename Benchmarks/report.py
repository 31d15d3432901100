"""Documentation/Benchmarks.md from what was measured: no figure in it is typed by hand."""

import hashlib
import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "Benchmarks/results"
PAGE = ROOT / "Documentation/Benchmarks.md"
PLOT = ROOT / "Documentation/Images/registrations.svg"


class Figures:
    """Those of rounds, as text: the median, and the least and the most where there are several."""

    def __init__(self, values, factor=1, digits=0):
        self.values, self.digits = [value * factor for value in values], digits

    @property
    def median(self):
        return self.text(statistics.median(self.values))

    def text(self, value):
        return f"{value:,.{self.digits}f}"

    def __str__(self):
        least, most = self.text(min(self.values)), self.text(max(self.values))
        return self.median if least == most else f"{self.median} ({least} to {most})"


class Result:
    """What one piece of the bench has written."""

    def __init__(self, name):
        self.name, self.data = name, json.loads((RESULTS / f"{name}.json").read_text())
        self.about = self.data["about"]

    def case(self, who, what, figure, factor=1, digits=0, at_once=64):
        for case in self.data["cases"]:
            if (case["who"], case["what"], case["at_once"]) == (who, what, at_once):
                return Figures([round[figure] for round in case["rounds"]], factor, digits)
        sys.exit(f"{self.name}.json has no case {who}, {what}, {at_once} at once: Benchmarks/all {self.name} measures it")

    def cpu(self, who, what, at_once=64):
        return self.case(who, what, "cpu", 1e6, at_once=at_once)

    def rounds(self, figure, factor=1, digits=0):
        return Figures([round[figure] for round in self.data["rounds"]], factor, digits)

    @property
    def round_count(self):
        return len(self.data["cases"][0]["rounds"])

    def provenance(self):
        about = self.about
        versions = ", ".join(about["builds"] + [f"{name} {version}" for name, version in about["versions"].items()])
        busy = "" if about["load"] < 0.5 * about["cores"] else (
            f" **The machine was busy with other work**: its load was {about['load']} when this began. Figures of an idle machine are lower.")
        return (
            f"```\n{about['command']}\n```\n\n"
            f"{about['date']}, {about['cores']} cores of {about['processor']}, {about['memory']} GB, Linux {about['kernel']}; {versions}. "
            f"It took {minutes(about['seconds'])}.{busy}\n")


def minutes(seconds):
    return f"{seconds} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def table(*rows):
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def count(number):
    return f"{number} round" + "s" * (number != 1)


# Sections

SQLITE = "push-bouncer, SQLite"
HALF = "notification, 1 a request, at half of the highest rate"


def services(result):
    def row(title, what):
        return (
            title, result.case(SQLITE, what, "rate").median, result.cpu(SQLITE, what),
            f"{result.case(SQLITE, what, 'p50', 1e3).median} ms", f"{result.case(SQLITE, what, 'p99', 1e3).median} ms")

    return f"""## Notifications and registrations

{result.provenance()}
SQLite; 64 requests at once. Load generator and provider simulator run on the same cores, so that rates are lower bounds.
CPU time is the service's own, for each notification or registration: the median of {count(result.round_count)}, and in
brackets the least and the most. Half of the devices are Android, half iPhones.

""" + table(
        ("", "per second", "CPU time each, µs", "p50", "p99"),
        row("notifications, 1 a request", "notification, 1 a request"),
        row("the same at half of the highest rate", HALF),
        row("notifications, 2 a request", "notification, 2 a request"),
        row("notifications, 20 a request", "notification, 20 a request"),
        row("registrations (sealed box opened, durable)", "registration"),
        row("the chat-server side: sealed for 1 device a user", "sealed here, 1 device"),
        row("for 5 devices a user", "sealed here, 5 devices"),
        row("for 50 devices a user", "sealed here, 50 devices"))


def peers(result):
    versions = result.about["versions"]
    apns, fcm = "push-bouncer, APNs alone", "push-bouncer, FCM alone"

    def ours(title, who):
        return title, *(result.cpu(who, "1 a request", at_once) for at_once in (1, 8, 64)), *(
            result.cpu(who, f"{number} a request") for number in (2, 20))

    def other(name):
        return " ".join([name, *filter(None, [versions.get(name)])]) + (", a client alone" if name in versions else ", a gateway"), *(result.cpu(name, "a push", at_once) for at_once in (1, 8, 64)), "", ""

    # Only where a checkout was given.
    sygnal = [other("Sygnal")] if any(case["who"] == "Sygnal" for case in result.data["cases"]) else []
    return """## Beside others

In the run above, in random order with it, on the same simulator and with the same payloads. µs of CPU time for each push, by
how many requests there are at once and how many pushes a request has. A client alone takes no HTTP in and has no database;
push-bouncer does both.

""" + table(
        ("", "1 at once", "8 at once", "64 at once", "64, 2 a request", "64, 20 a request"),
        ours("push-bouncer to APNs", apns), other("aioapns"), *sygnal, ours("push-bouncer to FCM", fcm), other("firebase-admin"))


def memory(result):
    figures = result.data["memory"][SQLITE]
    return f"""## Memory

Resident, in the run above: {figures['idle']:.0f} MB idle, of which {figures['own']:.0f} MB are its own and the rest is the program and Swift's
libraries; {figures['end']:.0f} MB at the end. [Sizing](Sizing.md) says what it depends on.
"""


def stored(result):
    """The numbers of registrations that were compared."""
    found = {int(match[1].replace(",", "")) for case in result.data["cases"] if (match := re.search(r"([\d,]+) there", case["who"]))}
    return sorted(found)


def who(engine, number):
    return f"push-bouncer, {engine}, {number:,} there"


KINDS = {"a registration": "registration", "a notification, 2 a request": "notification, 2 a request"}


def registrations(result, nodes):
    numbers = stored(result)
    rows = [
        (f"{engine}: {title}", *(result.cpu(who(engine, number), what) for number in numbers))
        for engine in ("SQLite", "PostgreSQL") for title, what in KINDS.items()]
    servers = [
        (f"PostgreSQL's own: {title}", *(result.case(who("PostgreSQL", number), what, "database", 1e6) for number in numbers))
        for title, what in KINDS.items()]
    least, most = numbers[0], numbers[-1]
    growth = "; ".join(
        f"{engine}, {title}: {statistics.median(result.cpu(who(engine, most), what).values) / statistics.median(result.cpu(who(engine, least), what).values):.2f}"
        for engine in ("SQLite", "PostgreSQL") for title, what in KINDS.items())
    two = "push-bouncer, PostgreSQL, 2 nodes"
    pair = [(title, nodes.cpu(two, what), nodes.case(two, what, "database", 1e6), nodes.case(two, what, "rate").median) for title, what in KINDS.items()]
    return f"""## By the number of registrations

{result.provenance()}
CPU time in µs with so many registrations in the database already: the median of {count(result.round_count)}, and in brackets the
least and the most. New ones are removed again before each round.

""" + table(("", *(f"{number:,}" for number in numbers)), *rows, *servers) + f"""
What an operation costs with {most:,} there, as a multiple of what it costs with {least:,}: {growth}.

![CPU time of an operation by the number of registrations](Images/{PLOT.name})

## Two nodes

{nodes.provenance()}
Two nodes on one PostgreSQL database, all on the same cores.

""" + table(("", "CPU time each, µs", "PostgreSQL's own, µs", "per second"), *pair)


def migration(result):
    killed = result.data["kills"]
    return f"""## Moving in from Zulip

{result.provenance()}
`migrate zulip` brings the tables of a made-up Zulip bouncer with {result.data['rows']:,} registrations into SQLite. In brackets the
least and the most of {count(len(result.data['rounds']))}.

""" + table(
        ("", ""), ("time", f"{result.rounds('wall', digits=1)} s"), ("CPU time", f"{result.rounds('cpu', digits=1)} s"),
        ("memory at most", f"{result.rounds('memory')} MB"), ("written to the disk", f"{result.rounds('written', 1e-9, 2)} GB")) + f"""
With `--kill` it is killed (`kill -9`) on the way, again and again, and started again: here {killed} times. It ended with the
same report.
"""


def nextcloud(result):
    return f"""## Nextcloud's push proxy

{result.provenance()}
In a request of {result.data['entries']:,} notifications for {result.data['users']} users, µs of CPU time for each; sending is not counted.

""" + table(
        ("", ""), ("all until it is sent", result.rounds("whole", 1e6)), ("of this, verifying the signature", result.rounds("verify", 1e6)),
        ("looking its device up", result.rounds("lookup", 1e6, 1)))


def webpush(result):
    data = result.data
    few, many = "10 hosts", f"{data['hosts']:,} hosts"
    turns = {"for the first time": "each for the first time", "once more": "each once more"}

    def row(title, of, figure, factor=1):
        return title, *(f"{data[of.format(hosts)][figure] * factor:,.0f}" for hosts in (few, many))

    notification = "{}: a notification, 20 a request, "
    dead = f"beside {data['hosts'] - 1:,} dead ones"
    like = "beside as many notifications to nine that live"
    alone, like, beside, on = (data[f"living {what}"] for what in ("alone", like, dead, "and on"))
    latency = lambda one: (f"{one['p50'] * 1e3:.1f} ms", f"{one['p99'] * 1e3:.1f} ms", f"{one['p99'] / alone['p99']:.1f}")
    again = sorted(time * 1e3 for name, times in data.items() if name.startswith("connect ") for time in times)
    return f"""## Web Push

{result.provenance()}
{data['prefill']:,} subscriptions in SQLite, push services of nginx over HTTP/2, at ten hosts and at {data['hosts']:,}. Load, nginx and a
name server run on the same cores. Measured once: there is no spread.

""" + table(
        ("", few, many), row("a registration, µs of CPU time", "{}: a registration", "cpu", 1e6),
        *(row(f"a notification {title}, 20 a request, µs of CPU time", notification + turn, "cpu", 1e6) for title, turn in turns.items()),
        *(row(f"notifications a second, {title}", notification + turn, "rate") for title, turn in turns.items()),
        row(f"memory in MB ({data['memory']:.0f} at the start)", notification + turns["once more"], "memory")) + f"""
A registration does not depend on how many hosts there are. With so many hosts, nearly each notification needs a connection with
TLS of its own. There are 1,000 connections at most, and hosts that were not heard of yet share 250 of these: a burst of one
notification for each host waits for them.

Then all hosts but ten die (a quarter each have no address, a name server that does not answer, refused connections, and
silence) while their phones are notified on and on, and a phone at a living host gets {data['rate']} notifications a second:

""" + table(
        ("a notification for the living host", "p50", "p99", "times the p99 alone"), ("alone", *latency(alone)),
        ("beside as many notifications to nine hosts that live", *latency(like)), ("beside the dead hosts", *latency(beside)), ("and on, as long again", *latency(on))) + f"""
What the second row has beside the first comes of the other load alone; what the rows below have beside the second comes of the
dead. Nine living hosts that had to be connected to again meanwhile took {statistics.median(again):.0f} ms (median; {again[0]:.0f} to {again[-1]:.0f}): a name
server that answers late is waited for, and then the name's last known address is used.
"""


def page(results):
    sections = [
        services(results["services"]), peers(results["services"]), memory(results["services"]),
        registrations(results["registrations"], results["nodes"]), migration(results["migration"]), nextcloud(results["nextcloud"]),
        webpush(results["webpush"])]
    titles = [title for section in sections for title in re.findall(r"^## (.*)", section, re.MULTILINE)]
    anchor = lambda title: re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
    contents = "\n".join(f"- [{title}](#{anchor(title)})" for title in titles)
    return f"""<!-- Written by Benchmarks/report from Benchmarks/results; changes here are lost. -->
# Benchmarks

What push-bouncer costs. Each section names its command, the machine and the versions; `Benchmarks/all` does them all, on your
machine as well, and writes this page ([how](../Benchmarks/README.md)). The figures themselves, every round of them, are in
[Benchmarks/results](../Benchmarks/results).

{contents}

""" + "\n".join(sections)


# Other documents

def cited(results):
    """(document, pattern, figures): what the groups of the pattern have to say."""
    data, memory = results["services"], results["services"].data["memory"][SQLITE]
    cpu = data.cpu(SQLITE, "notification, 1 a request").median
    moving = results["migration"]
    idle, own, end = (f"{memory[what]:.0f}" for what in ("idle", "own", "end"))
    a_second = f"{1e6 / statistics.median(data.cpu(SQLITE, 'notification, 1 a request').values) // 1000 * 1000:,.0f}"
    return [
        ("README.md", r"\*\*It is small and fast\.\*\* ([\d,]+) µs of CPU time for a notification, ([\d,]+) MB of memory idle", [cpu, idle]),
        ("Documentation/Sizing.md", r"A notification costs ([\d,]+) µs of CPU time in all, so a core sends about ([\d,]+) a second", [cpu, a_second]),
        ("Documentation/Sizing.md", r"([\d,]+) MB without load, of which ([\d,]+) MB are its own .*; ([\d,]+) MB after all", [idle, own, end]),
        ("Documentation/GettingStarted/MovingIn.md", r"([\d,]+) registrations took ([\d,]+) s and ([\d,]+) MB of memory",
         [f"{moving.data['rows']:,}", moving.rounds("wall").median, moving.rounds("memory").median]),
    ]


def with_figures(text, document, pattern, figures):
    match = re.search(pattern, text)
    if not match:
        sys.exit(f"{document} does not say {pattern} any more: Benchmarks/report.py lists what cites figures")
    for number in range(len(figures), 0, -1):
        start, end = match.span(number)
        text = text[:start] + figures[number - 1] + text[end:]
    return text


# The plot

def digest(result):
    """Of what is drawn. A plot says of which figures it was made, so that nobody has to draw it to know."""
    return "Figures " + hashlib.sha256(json.dumps(result.data["cases"], sort_keys=True).encode()).hexdigest()


def draw(result):
    import plot

    numbers = stored(result)
    panels = []
    for title, what in KINDS.items():
        lines = {}
        for engine, figure, name in (("SQLite", "cpu", "SQLite"), ("PostgreSQL", "cpu", "PostgreSQL"), ("PostgreSQL", "database", "PostgreSQL's own")):
            all_figures = [result.case(who(engine, number), what, figure, 1e6).values for number in numbers]
            lines[name] = numbers, [statistics.median(values) for values in all_figures], [(min(values), max(values)) for values in all_figures]
        panels.append(plot.Panel(f"{title}:\nCPU time, µs", lines, markers=True))
    plot.write(
        PLOT, "Cost by the number of registrations (median, least and most)", panels, "registrations in the database", log_x=True,
        height=2.4, metadata={"Description": digest(result)})


def main():
    results = {name: Result(name) for name in ("services", "registrations", "nodes", "migration", "nextcloud", "webpush")}
    files = {PAGE: page(results)}
    for document, pattern, figures in cited(results):
        path = ROOT / document
        files[path] = with_figures(files.get(path) or path.read_text(), document, pattern, figures)
    if "--check" in sys.argv:
        stale = [str(path.relative_to(ROOT)) for path, text in files.items() if not path.exists() or path.read_text() != text]
        if not PLOT.exists() or digest(results["registrations"]) not in PLOT.read_text():
            stale.append(str(PLOT.relative_to(ROOT)))
        if stale:
            sys.exit(f"Not what Benchmarks/results say: {', '.join(stale)}. Benchmarks/report writes them.")
        return
    for path, text in files.items():
        path.write_text(text)
    draw(results["registrations"])
    print(f"Written: {', '.join(str(path.relative_to(ROOT)) for path in [*files, PLOT])}")


if __name__ == "__main__":
    main()
