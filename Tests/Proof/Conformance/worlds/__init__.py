"""What the cases of a suite speak of, new for each case: the part that all suites share."""

import json
import time
import urllib.parse

from conformance import http
from conformance.cases import resolve
from conformance.matching import Matcher
from conformance.phones import encode


class World:
    #: The Content-Type of a body that is given as it is.
    body_type = None

    def __init__(self, running, simulator):
        self.running, self.simulator = running, simulator
        self.last, self.expected, self.phones = None, 0, {}

    def close(self, name):
        self.simulator.settle(name, list(self.names))

    # What cases make.

    def make_repeat(self, argument):
        text, count = argument
        return text * count

    def make_padded(self, argument):
        text, length = argument
        return text.ljust(length, "x")

    def make_upper(self, text):
        return text.upper()

    def make_base64(self, text):
        return encode(text.encode())

    def make_basic(self, text):
        return "Basic " + encode(text.encode())

    def make_time(self, _):
        """Any time, as RFC 3339 has it, in UTC and to the second."""
        return Matcher("match", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

    def make_json(self, value):
        return json.dumps(value, separators=(",", ":"))

    # Steps before a case.

    def prepare(self, step):
        """A request, which has to succeed, or words: how the provider answers a phone, or what `step` knows."""
        if isinstance(step, dict):
            answer = self.send(resolve(step, self))
        else:
            match step.split():
                case [name, "is", "answered", "once", status, *reason]:
                    return self.provide(name, status, *reason, times=1)
                case [name, "is", "answered", status, *reason]:
                    return self.provide(name, status, *reason)
                case words:
                    answer = self.step(words)
        if answer is None:
            return
        assert 200 <= answer.status < 300, f"{step}: {answer.status} {answer.body}"
        self.last = answer.body

    def provide(self, name, status, reason=None, **more):
        phone = getattr(self, name)
        for address in getattr(phone, "addresses", None) or [phone.address]:
            self.simulator.answer(address, int(status), **({"reason": reason} if reason else {}), **more)

    # Requests and answers.

    def call(self, request, path, headers, base=None):
        """Makes the request of a case at this path with these headers. Returns the answer."""
        if query := request.get("query"):
            path += ("&" if "?" in path else "?") + (query if isinstance(query, str) else urllib.parse.urlencode(query))
        body, kind = None, None
        if "form" in request:
            body, kind = self.encoded(request["form"]), "application/x-www-form-urlencoded"
        elif "json" in request:
            body, kind = self.make_json(request["json"]), "application/json"
        elif "body" in request:
            body, kind = request["body"], self.body_type
        if kind:
            headers.setdefault("Content-Type", kind)
        return http.send(
            base or self.running.url, request["request"].split(" ")[0], path, headers, body.encode() if isinstance(body, str) else body,
            self.running.ca_file)

    def encoded(self, form):
        return urllib.parse.urlencode(form)

    # What arrives.

    @staticmethod
    def in_seconds(seconds):
        """So many seconds from now, as Apple is told of it, give or take what a test may take."""
        at = int(time.time()) + seconds
        return Matcher("match", "|".join(str(second) for second in range(at - 30, at + 31)))

    def arrived(self, expected):
        """What has come for the phones of the case since the last time."""
        names = {self.simulator.key(address): name for address, name in self.names.items()}
        if not names:
            return []
        found = self.simulator.wait(list(names), self.expected + expected)[self.expected:]
        self.expected += len(found)
        return [self.shown(names[self.simulator.key(delivery["token"])], delivery) for delivery in found]

    def shown(self, name, delivery):
        return {"to": name, "headers": {**delivery["headers"], "token": delivery["token"]}, "payload": delivery["payload"]}
