"""A push proxy that Nextcloud servers send to: it records requests, and answers as a case says."""

import collections
import functools
import http.server
import json
import threading
import time
import urllib.parse

TIMEOUT = 60
TAKEN = (200, {"unknown": [], "failed": 0})


class Proxy:
    """One listener for all cases, each of which has a path of its own below it. Answers are (status, body) or (status, body,
    {header: value}), with the status 0 for none at all; a number of seconds in front is how long one takes."""

    def __init__(self):
        self.seen = {}
        self.requests = collections.defaultdict(list)
        self.answers = collections.defaultdict(list)
        self.changed = threading.Condition()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                place, _, call = self.path.strip("/").partition("/")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with owner.changed:
                    # The last one is said again and again.
                    answers = owner.answers[place]
                    answer = answers.pop(0) if len(answers) > 1 else answers[0] if answers else TAKEN
                    delay, status, answer, *more = answer if isinstance(answer[1], int) else (0, *answer)
                    owner.requests[place].append({
                        "method": self.command, "call": call, "headers": {name.lower(): value for name, value in self.headers.items()},
                        "body": body, "status": status, "began": time.monotonic()})
                    owner.changed.notify_all()
                time.sleep(delay)
                if status == 0:
                    self.close_connection = True
                    return
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            # A GET means that a redirect was followed, which is wrong.
            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listener.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def wait(self, place, enough):
        """The requests to a place, once `enough` is true of them."""
        deadline = time.monotonic() + TIMEOUT
        with self.changed:
            while not enough(self.requests[place]) and self.changed.wait(deadline - time.monotonic()):
                pass
            return list(self.requests[place])

    def settle(self, what, place):
        """Fails if anything more was accepted there; `late` names it."""
        with self.changed:
            self.seen[place] = (what, taken(self.requests[place]))

    def late(self):
        with self.changed:
            for place, (what, count) in self.seen.items():
                if (now := taken(self.requests[place])) != count:
                    yield f"{what}: {count} requests were taken at the proxy when the case ended, {now} at last"


def taken(requests):
    """The number of final answers, after which no call is repeated."""
    return sum(0 < request["status"] < 500 for request in requests)


def entries(request):
    """The entries of a body, named and in order as by PHP's http_build_query."""
    fields = urllib.parse.parse_qsl(request["body"].decode(), keep_blank_values=True)
    assert [name for name, _ in fields] == [f"notifications[{index}]" for index in range(len(fields))], fields
    return [json.loads(value) for _, value in fields]


@functools.cache
def shared():
    return Proxy()
