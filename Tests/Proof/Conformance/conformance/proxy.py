"""A push proxy that Nextcloud servers send to: it records requests, and answers as a case says."""

import collections
import functools
import json
import time
import urllib.parse

from .played import Played, next_of

TAKEN = (200, {"unknown": [], "failed": 0})


class Proxy(Played):
    """One listener for all cases, each of which has a path of its own below it. A number of seconds in front of an answer is
    how long it takes."""

    def __init__(self):
        self.requests, self.answers = collections.defaultdict(list), collections.defaultdict(list)
        super().__init__()

    def answer(self, method, path, headers, body):
        place, _, call = path.strip("/").partition("/")
        with self.changed:
            answer = next_of(self.answers[place] or [TAKEN])
            delay, *answer = answer if isinstance(answer[1], int) else (0, *answer)
            self.requests[place].append({
                "method": method, "call": call, "headers": headers, "body": body, "status": answer[0], "began": time.monotonic()})
            self.changed.notify_all()
        time.sleep(delay)
        return answer

    def wait(self, place, enough):
        """The requests to a place, once `enough` is true of them."""
        self.until(lambda: enough(self.requests[place]))
        return list(self.requests[place])

    def count(self, place):
        """The number of final answers, after which no call is repeated."""
        return sum(0 < request["status"] < 500 for request in self.requests[place])


def entries(request):
    """The entries of a body, named and in order as by PHP's http_build_query."""
    fields = urllib.parse.parse_qsl(request["body"].decode(), keep_blank_values=True)
    assert [name for name, _ in fields] == [f"notifications[{index}]" for index in range(len(fields))], fields
    return [json.loads(value) for _, value in fields]


@functools.cache
def shared():
    return Proxy()
