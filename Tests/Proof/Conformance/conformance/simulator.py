"""`push-bouncer simulate`, which plays Apple, Google and a push service (Documentation/Simulator.md)."""

import collections
import contextlib
import json
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

from . import http
from .limits import TIMEOUT
from .phones import Subscription


class Simulator:
    """`control`, `keys` and `webpush` are those of one that already runs; without them one is started."""

    def __init__(self, program, control=None, keys=None, webpush=None):
        self.process = None
        if control:
            self.control, self.keys, self.webpush = control.rstrip("/"), Path(keys), webpush
        else:
            self.folder = tempfile.TemporaryDirectory(prefix="conformance-simulator.")
            self.keys = Path(self.folder.name, "Keys")
            self.process = subprocess.Popen(
                [program, "simulate", "--apns-port", "0", "--fcm-port", "0", "--webpush-port", "0", "--keys-out", self.keys, "--json"],
                stdout=subprocess.PIPE, text=True)
            ports = json.loads(self.process.stdout.readline())
            self.apns, self.fcm, self.webpush = (ports[f"{name}_endpoint"] for name in ("apns", "fcm", "webpush"))
            self.control = self.fcm.replace("https:", "http:") + "/_control"
        self.seen = {}
        self.next = 0
        self.arrived = collections.defaultdict(list)
        self.read()
        self.arrived.clear()

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(TIMEOUT)

    def call(self, method, path, body=None):
        answer = http.send(self.control, method, urllib.parse.urlsplit(self.control).path + path,
                           body=None if body is None else json.dumps(body).encode())
        assert answer.status == 200, f"the simulator answered {answer.status} to {method} {path}: {answer.body}"
        return answer.body

    def subscribe(self, vapid):
        """A subscription at the push service, for who signs with this key."""
        answer = http.send(self.webpush, "POST", "/subscriptions", body=json.dumps({"vapid": vapid}).encode(), ca_file=self.keys / "ca.pem")
        return Subscription(answer.body["endpoint"])

    # What has arrived.

    def read(self, wait=0):
        """Fetches new deliveries, including refused ones."""
        answer = self.call("GET", f"/deliveries?all=true&since={self.next}&wait={wait}")
        self.next = answer["next"]
        for delivery in answer["deliveries"]:
            self.arrived[self.key(delivery["token"])].append(delivery)

    @staticmethod
    def key(token):
        return token.lower() if all(character in "0123456789abcdefABCDEF" for character in token) else token

    def deliveries(self, tokens, accepted=True):
        """What has arrived for these tokens, in its order."""
        self.read()
        return self.known(tokens, accepted)

    def known(self, tokens, accepted=True):
        """The same of what has been read already."""
        found = [delivery for token in {self.key(token) for token in tokens} for delivery in self.arrived[token]
                 if delivery["accepted"] or not accepted]
        return sorted(found, key=lambda delivery: delivery["sequence"])

    def wait(self, tokens, count, accepted=True):
        """Waits until so many have arrived for these tokens, and returns all of them."""
        deadline = time.monotonic() + TIMEOUT
        while len(found := self.deliveries(tokens, accepted)) < count and time.monotonic() < deadline:
            self.read(wait=1)
        return found

    def settle(self, what, tokens):
        """Nothing more may arrive for these tokens: `late` says what did."""
        if tokens:
            self.read()
            self.seen.update({self.key(token): (what, len(self.known([token]))) for token in tokens})

    def late(self):
        self.read()
        for token, (what, count) in self.seen.items():
            if (now := len(self.known([token]))) != count:
                yield f"{what}: {count} had arrived for a token when the case ended, {now} at last"

    # What goes wrong.

    def answer(self, token, status, **more):
        """Sets the answer for one token: `reason`, `timestamp`, `retry_after`, `delay_ms`, `times`."""
        self.call("PUT", "/tokens/" + urllib.parse.quote(token, safe=""), {"status": status, **more})

    def forget(self, token):
        self.call("DELETE", "/tokens/" + urllib.parse.quote(token, safe=""))

    @contextlib.contextmanager
    def faults(self, **faults):
        """For all providers, or `apns={...}`, `fcm={...}`, `webpush={...}` for one."""
        self.call("PUT", "/faults", faults)
        try:
            yield
        finally:
            self.call("PUT", "/faults", {})

    def outage(self):
        return self.faults(outage=True)
