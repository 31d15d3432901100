"""HTTP services that are played for an implementation to call."""

import contextlib
import http.server
import json
import threading
import time

TIMEOUT = 60


class Played:
    """A service on loopback, with TLS if there is a context. A subclass defines `answer(method, path, headers, body)`, which
    returns `(status, body)` or `(status, body, {header: value})`; the status 0 closes the connection without an answer."""

    def __init__(self, context=None):
        self.changed, self.settled = threading.Condition(), {}
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, answer, *more = played.answer(self.command, self.path, headers, body)
                if status == 0:
                    self.close_connection = True
                    return
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **dict(*more)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request, address):
                with contextlib.suppress(OSError):
                    request.settimeout(TIMEOUT)
                    super().finish_request(context.wrap_socket(request, server_side=True) if context else request, address)

        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.port = self.listener.server_port
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def stop(self):
        self.listener.shutdown()
        self.listener.server_close()

    def until(self, find):
        """The first value of `find` that is true; the last one if none is in time."""
        deadline = time.monotonic() + TIMEOUT
        with self.changed:
            while not (found := find()) and self.changed.wait(max(deadline - time.monotonic(), 0)):
                pass
            return found

    def settle(self, what, key):
        """Declares that nothing more may be taken that `count(key)` counts: `late` reports what was."""
        with self.changed:
            self.settled[key] = (what, self.count(key))

    def late(self):
        with self.changed:
            for key, (what, before) in self.settled.items():
                if (now := self.count(key)) != before:
                    yield f"{what}: {type(self).__name__} had taken {before} calls when the case ended, {now} at last"


def next_of(answers):
    """The next one of a list; the last one is given again and again."""
    return answers.pop(0) if len(answers) > 1 else answers[0]
