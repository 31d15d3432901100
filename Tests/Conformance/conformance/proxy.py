"""A push proxy that Nextcloud servers send to: it writes down what it is told, and answers as a case wants."""

import collections
import functools
import http.server
import json
import threading
import time
import urllib.parse

PATIENCE = 60


class Proxy:
    """One listener for all cases, each of which has a path of its own below it."""

    def __init__(self):
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
                    status, answer = answers.pop(0) if len(answers) > 1 else answers[0] if answers else (200, {"unknown": [], "failed": 0})
                    owner.requests[place].append({"call": call, "headers": {name.lower(): value for name, value in self.headers.items()}, "body": body, "status": status})
                    owner.changed.notify_all()
                if status == 0:
                    # No answer at all.
                    self.close_connection = True
                    return
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listener.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def wait(self, place, enough):
        """The requests to a place, once `enough` is true of them."""
        deadline = time.monotonic() + PATIENCE
        with self.changed:
            while not enough(self.requests[place]) and self.changed.wait(deadline - time.monotonic()):
                pass
            return list(self.requests[place])


def entries(request):
    """The entries of a body, in the order of PHP's array."""
    return [json.loads(value) for _, value in urllib.parse.parse_qsl(request["body"].decode(), keep_blank_values=True)]


@functools.cache
def shared():
    return Proxy()
