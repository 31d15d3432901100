"""A bouncer for chat servers to call: it records calls, and answers as a case says: `(status, body)`, or
`(status, body, {header: value})`; status 0 is no answer."""

import functools
import http.server
import json
import threading
import time
import urllib.parse
import uuid

TIMEOUT = 60
PUSH = "/api/v1/remotes/"


def success(**members):
    return 200, {"result": "success", "msg": "", **members}


def refused(code, status=400, msg="No."):
    return status, {"result": "error", "msg": msg, "code": code}


DEFAULTS = {
    "push/e2ee/register": success(),
    "push/e2ee/notify": success(
        apple_successfully_sent_count=0, android_successfully_sent_count=0, delete_token_ids=[], realm_push_status=None),
    "push/notify": success(
        total_apple_devices=0, total_android_devices=0, deleted_devices={"apple_devices": [], "android_devices": []}, realm=None),
    "push/register": success(), "push/unregister": success(), "push/unregister/all": success(),
    "push/test_notification": success(), "server/analytics": success(realms={}),
    "server/analytics/status": success(last_realm_count_id=0, last_installation_count_id=0, last_realmauditlog_id=0),
}


class Bouncer:
    settings = {"org_id": str(uuid.UUID(int=0x12345678123446788123456781234567)), "org_key": "k" * 64}

    def __init__(self):
        self.calls, self.answers, self.changed = [], {}, threading.Condition()
        #: When each of the calls came.
        self.times = []
        #: Calls that were answered with success, so that nobody calls again.
        self.taken = []
        self.seen = {}
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                call = self.path.split("?")[0].removeprefix(PUSH)
                form = json.loads(body) if body[:1] == b"{" else dict(urllib.parse.parse_qsl(body.decode()))
                with owner.changed:
                    # What concerns one token may be told for that alone: servers go on with those of earlier cases.
                    queued = owner.answers.get((call, form.get("token_id"))) or owner.answers.get((call, None))
                    status, answer, *headers = (queued.pop(0) if len(queued) > 1 else queued[0]) if queued else DEFAULTS.get(call, refused("NOT_FOUND", 404))
                    owner.times.append(time.monotonic())
                    owner.calls.append((call, form, {name.lower(): value for name, value in self.headers.items()}))
                    if status == 200 and not isinstance(answer, str):
                        owner.taken.append((call, json.dumps(form)))
                    owner.changed.notify_all()
                if status == 0:
                    self.close_connection = True
                    return
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers[0].items() if headers else ():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        listener.daemon_threads = True
        self.settings = {**self.settings, "bouncer": f"http://127.0.0.1:{listener.server_port}"}
        threading.Thread(target=listener.serve_forever, daemon=True).start()

    def told(self, call, enough=lambda form: True, count=1):
        """The calls of a kind for which `enough` is true, once there are so many."""
        deadline = time.monotonic() + TIMEOUT
        with self.changed:
            while len(found := [form for name, form, _ in self.calls if name == call and enough(form)]) < count:
                assert self.changed.wait(max(deadline - time.monotonic(), 0)), f"{call} was never called so often"
            return found

    def settle(self, what, tokens):
        """Nothing more may be taken that names one of these tokens or token ids: `late` says what was."""
        with self.changed:
            self.seen[tuple(tokens)] = (what, self.count(tokens))

    def late(self):
        with self.changed:
            for tokens, (what, before) in self.seen.items():
                if (now := self.count(tokens)) != before:
                    yield f"{what}: the bouncer had taken {before} calls for a token when the case ended, {now} at last"

    def count(self, tokens):
        return sum(any(token in form for token in tokens) for _, form in self.taken)


@functools.cache
def shared():
    return Bouncer()
