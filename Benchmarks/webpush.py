"""Measures Web Push over many push services on this machine.

Registers phones without Google's services at a service that has a million subscriptions already, first of ten push
services and then of ten thousand, and notifies them. Prints the CPU time of the service for each, the rate and the memory.

Then all push services but ten die: their names do not exist, the name server does not answer, connections are refused, or
nothing answers. Their phones are still notified, while the phones of one living push service are notified at a steady rate.
Prints p50 and p99 of the living one alone, beside as many notifications to nine other living ones, and beside the dead ones.

CPU time is the service's alone. The load, nginx and the name server run on the same cores.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import secrets
import sys
import tempfile
import threading
import time
import urllib.error
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

import load
from bench import ROOT, machine
from conformance.phones import encode, encode_url, item, point
from processes import Processes
from push_services import IMMORTAL, PORT, PushServices, name
from service import REALM, Service, Simulator

TARGET = 1.5
LIKE = "beside as many notifications to nine that live"


def arguments():
    parser = argparse.ArgumentParser(prog="Benchmarks/webpush", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / ".build/release/push-bouncer", help="the build to measure (default: .build/release/push-bouncer)")
    parser.add_argument("--prefill", type=int, default=1_000_000, metavar="N", help="subscriptions that are there already (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=10_000, metavar="N", help="push services, at most 10,000 (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=100, metavar="N", help="notifications a second to the living one (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=30, help="how long the living one is notified each time (default: %(default)s)")
    options = parser.parse_args()
    options.binary = [options.binary.resolve()]
    if not options.binary[0].exists():
        parser.error(f"there is no {options.binary[0]}: swift build -c release --product push-bouncer makes it")
    return options


class WebPushService(Service):
    """A service whose phones have subscriptions at `hosts`, in turn."""

    hosts, made = range(0), 0
    # The phones share a few keys, since making one takes long.
    keys = [encode_url(point(ec.generate_private_key(ec.SECP256R1()))) for _ in range(50)]

    def token(self, kind):
        endpoint = f"https://{name(self.hosts[self.made % len(self.hosts)])}:{PORT}/push/{secrets.token_urlsafe(18)}"
        fields = {"endpoint": endpoint, "p256dh": self.keys[self.made % len(self.keys)], "auth": secrets.token_urlsafe(16)}
        self.made += 1
        return "webpush:" + encode_url(json.dumps(fields).encode())

    def register_at(self, hosts, count):
        """Registers so many phones. Returns their tokens, the CPU seconds for each and the rate."""
        self.hosts, self.made = hosts, 0
        targets, tokens = self.registrations(count, 1)
        cpu = self.cpu()
        elapsed = send_all("registrations", targets[0], 1_000)
        return tokens, (self.cpu() - cpu) / count, count / elapsed


def send_all(what, target, at_once):
    """Sends every body once, so many requests at a time. Returns the seconds that it took."""
    elapsed = 0
    for start in range(0, len(target.requests), at_once):
        part = dataclasses.replace(target, requests=target.requests[start:start + at_once])
        done = load.exactly(part, len(part.requests), connections=32)
        if done.failures:
            raise SystemExit(f"{what}: {done.failures}")
        elapsed += done.elapsed
    return elapsed


class Bench:
    def __init__(self, options, folder, stack):
        self.options, processes = options, Processes(stack)
        self.payload = {"push_key_id": 10, "encrypted_data": encode(os.urandom(400))}
        simulator = Simulator(options.binary[0], stack)
        self.push = PushServices(os.environ["NGINX_PROGRAM"], folder, simulator.keys, processes, stack)
        names = ",".join(name(number) for number in range(options.hosts))
        self.service = WebPushService(options.binary[0], folder / "service", processes, simulator, prefill=options.prefill, settings={
            "PUSH_BOUNCER_WEBPUSH_ALLOW_PRIVATE_HOSTS": names, "PUSH_BOUNCER_OPERATOR_EMAIL": "operator@example.org"})

    def run(self):
        print(f"\n{machine(self.options.binary, 'webpush')}\n\nmemory at the start: {self.service.memory():.0f} MB, {self.options.prefill:,} subscriptions")
        few = self.costs(range(IMMORTAL), 2_000)
        many = self.costs(range(self.options.hosts), max(2_000, self.options.hosts))
        self.latencies(few, many)

    def costs(self, hosts, count):
        """Measures the registration and the notification of so many phones. Returns their tokens."""
        who = f"{len(hosts):,} hosts"
        tokens, cpu, rate = self.service.register_at(hosts, count)
        print(f"{who}: a registration {cpu * 1e6:.0f} µs, {rate:,.0f} a second, memory {self.service.memory():.0f} MB")
        requests = [tokens[start:start + 20] for start in range(0, count, 20)]
        bodies = [self.body(tokens) for tokens in requests]
        for turn in ("each for the first time", "each once more"):
            self.report(f"{who}: a notification, 20 a request, {turn}", bodies, count)
        return tokens

    def report(self, what, bodies, count):
        arrived, cpu, start = self.push.arrived(), self.service.cpu(), time.monotonic()
        send_all(what, self.target(bodies), 64)
        # A notification in the outbox counts when it has arrived. After a minute without any arrival the rest are missing.
        missing, progress = count, time.monotonic()
        while missing and time.monotonic() < progress + 60:
            time.sleep(0.1)
            if (left := count - self.push.arrived() + arrived) < missing:
                missing, progress = max(left, 0), time.monotonic()
        elapsed = time.monotonic() - start
        if missing:
            raise SystemExit(f"{what}: {missing} did not arrive")
        cpu = (self.service.cpu() - cpu) / count
        print(f"{what}: {cpu * 1e6:.0f} µs, {count / elapsed:,.0f} a second, memory {self.service.memory():.0f} MB", flush=True)

    def latencies(self, few, others):
        """The latency of a living push service, alone and beside the dead ones, and of nine that have to be connected to
        again."""
        living, quiet = few[::IMMORTAL], few[1:IMMORTAL]
        alone = self.steady("alone", living)
        with self.load(quiet):
            like = self.steady(LIKE, living)
        self.push.die()
        dead = [token for number, token in enumerate(others) if number % self.options.hosts >= IMMORTAL]
        # Notifies each dead one once beforehand, so that the service has met all of them.
        requests = [dead[start:start + 20] for start in range(0, self.options.hosts, 20)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(self.notify, requests))
        self.connect("when the others have just died", quiet)
        with self.load(dead):
            beside = self.steady(f"beside {self.options.hosts - 1:,} dead ones", living)
            again = self.steady("and on", living)
            self.push.disconnect()
            self.connect("when they have been dead for a while", quiet)
        for what, one in ((LIKE, like), ("beside the dead", beside), ("and on", again)):
            print(f"{what}: p50 {one.p50 / alone.p50:.2f} times that alone, p99 {one.p99 / alone.p99:.2f} times; {TARGET} are wanted")

    @contextlib.contextmanager
    def load(self, tokens):
        """Notifies these phones over and over meanwhile."""
        end = threading.Event()
        loads = [threading.Thread(target=self.bother, args=(tokens[start::4], end)) for start in range(4)]
        for each in loads:
            each.start()
        yield
        end.set()
        for each in loads:
            each.join()

    def connect(self, what, tokens):
        took = []
        for token in tokens:
            start = time.monotonic()
            self.notify([token])
            took.append(time.monotonic() - start)
        print(f"nine that are connected to again {what}: {', '.join(f'{1e3 * one:.0f}' for one in sorted(took))} ms", flush=True)

    def steady(self, what, tokens):
        bodies = [self.body([token]) for token in tokens]
        arrived, cpu, seconds = self.push.arrived(), self.service.cpu(), self.options.seconds
        done = load.open_loop(self.target(bodies), self.options.rate, seconds, connections=32)
        deadline = time.monotonic() + 60
        while self.push.arrived() - arrived < done.requests and time.monotonic() < deadline:
            time.sleep(0.1)
        if done.failures:
            raise SystemExit(f"{what}: {done.failures}")
        print(
            f"a living host {what}: p50 {done.p50 * 1e3:.1f} ms, p99 {done.p99 * 1e3:.1f} ms, "
            f"{self.push.arrived() - arrived} of {done.requests} arrived, {(self.service.cpu() - cpu) / seconds:.2f} cores, "
            f"memory {self.service.memory():.0f} MB", flush=True)
        return done

    def bother(self, tokens, end):
        """Notifies phones, 20 in a request, until `end` is set."""
        at = 0
        while not end.wait(0.5):
            self.notify([tokens[(at + number) % len(tokens)] for number in range(20)])
            at += 20

    def notify(self, tokens):
        body = self.body(tokens)
        target = self.target([body])
        # The service refuses notifications when too many wait for a device.
        with contextlib.suppress(urllib.error.HTTPError):
            self.service.post(target.origin + target.requests[0][0], body, target.headers)

    def body(self, tokens):
        items = [item(*token, self.payload) for token in tokens]
        return json.dumps({"realm_uuid": REALM, "push_requests": items})

    def target(self, bodies):
        return self.service.chat_server_targets("push/e2ee/notify", "application/json", bodies)[0]


def main():
    options = arguments()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="push-bouncer-bench-")))
        (folder / "service").mkdir()
        Bench(options, folder, stack).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
