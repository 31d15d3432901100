"""pywebpush sends through a running simulator, which checks it, and our virtual phone opens it.

The phone's bouncer is one of Python's: it opens the phone's registration and sends what it is given with pywebpush. Prints
a line per check; exits 1 at the first that fails.

    webpush_sender.py EXECUTABLE KEYS FCM WEBPUSH     the simulator's keys and its two addresses
"""

import http.server
import json
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

import nacl.public
import py_vapid
import pywebpush
import requests

from app import Mismatch, check, decode, decode_url, encode, encode_url
from webpush import Subscription, point

TEXTS = ["Grüße 🚀", "long " * 400]


def vapid():
    made = py_vapid.Vapid02()
    made.generate_keys()
    return made


class Altered(requests.Session):
    """Sends other headers than pywebpush has made, and leaves out those that are None."""

    def __init__(self, authority, changes=()):
        super().__init__()
        # Else authorities that the environment names count instead.
        self.trust_env, self.verify, self.changes = False, authority, dict(changes)

    def post(self, url, headers, **rest):
        headers = {**headers, **self.changes}
        return super().post(url, headers={name: value for name, value in headers.items() if value is not None}, **rest)


class Bouncer(http.server.ThreadingHTTPServer):
    """As much of a bouncer as a phone that plays its chat server needs."""

    def __init__(self, authority):
        super().__init__(("127.0.0.1", 0), BouncerHandler)
        self.box, self.vapid, self.session = nacl.public.PrivateKey.generate(), vapid(), Altered(authority)
        self.tokens, self.sent = {}, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def register(self, form):
        opened = nacl.public.SealedBox(self.box).decrypt(decode(form["encrypted_push_registration"]))
        registration = json.loads(opened)
        check("our phone registers a token of kind fcm", registration["token_kind"] == "fcm", registration["token_kind"])
        fields = json.loads(decode_url(registration["token"].removeprefix("webpush:")))
        check("the token is a subscription", sorted(fields) == ["auth", "endpoint", "p256dh"], sorted(fields))
        self.tokens[form["token_id"]] = {"endpoint": fields.pop("endpoint"), "keys": fields}

    def notify(self, requests):
        for request in requests:
            answer = pywebpush.webpush(
                self.tokens[request["token_id"]], json.dumps(request["payload"]), vapid_private_key=self.vapid,
                vapid_claims={"sub": "mailto:interop@example.org"}, ttl=60, requests_session=self.session)
            self.sent.append(answer.status_code)


class BouncerHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.succeed(vapid=encode_url(point(self.server.vapid.private_key)))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path.endswith("/push/e2ee/register"):
            self.server.register(dict(urllib.parse.parse_qsl(body)))
            return self.succeed()
        items = json.loads(body)["push_requests"]
        self.server.notify(items)
        self.succeed(
            apple_successfully_sent_count=0, android_successfully_sent_count=len(items), delete_token_ids=[],
            realm_push_status={"can_push": True, "expected_end_timestamp": None})

    def succeed(self, **fields):
        answer = json.dumps({"result": "success", "msg": "", **fields}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def phone(binary, authority, fcm, base):
    bouncer = Bouncer(authority)
    sends = [word for text in TEXTS for word in ("--send", text)]
    played = subprocess.run([
        binary, "device", "phone", "--kind", "webpush", "--org-id", str(uuid.uuid4()), "--org-key", "k" * 64, "--realm",
        str(uuid.uuid4()), "--bouncer", bouncer.url, "--public-key", encode(bytes(bouncer.box.public_key)), "--simulator", fcm,
        "--push-service", base, "--ca", authority, "--count", str(len(TEXTS)), "--json", *sends],
        capture_output=True, text=True, timeout=120)
    check("pywebpush: what it sends to our phone is accepted", bouncer.sent == [201] * len(TEXTS), (bouncer.sent, played.stderr))
    told = [json.loads(json.loads(line)["plaintext"])["content"] for line in played.stdout.splitlines() if line]
    check("pywebpush: our phone opens it", told == TEXTS, (told, played.stderr))
    bouncer.shutdown()


def strictness(base, authority):
    """Whom the simulator's push service takes messages of."""
    key = vapid()
    made = requests.post(base + "/subscriptions", json={"vapid": encode_url(point(key.private_key))}, verify=authority)
    check("simulator: a subscription with py_vapid's key", made.status_code == 201, made.text)
    endpoint = made.json()["endpoint"]
    name = endpoint.rsplit("/", 1)[1]
    subscription = Subscription(endpoint)

    def send(text="Grüße 🚀", *, key=key, claims=(), endpoint=endpoint, encoding="aes128gcm", changes=()):
        claims = {"sub": "mailto:interop@example.org", **dict(claims)}
        try:
            return pywebpush.webpush(
                {**subscription.info, "endpoint": endpoint}, text, vapid_private_key=key, vapid_claims=claims, ttl=60,
                content_encoding=encoding, requests_session=Altered(authority, changes)).status_code
        except pywebpush.WebPushException as error:
            return error.status_code

    check("pywebpush: accepted", [send(), send("x"), send("long " * 700)] == [201] * 3)
    hour = int(time.time()) + 3600
    check("refused: another audience", send(claims={"aud": "https://push.example.org"}) in (401, 403))
    check("refused: another port", send(claims={"aud": "https://127.0.0.1"}) in (401, 403))
    check("refused: good for two days", send(claims={"exp": hour + 2 * 86400}) in (401, 403))
    check("refused: another key", send(key=vapid()) in (401, 403))

    def signed(by=key, exp=hour):
        return by.sign({"aud": base, "exp": exp, "sub": "mailto:interop@example.org"})["Authorization"]

    # pywebpush itself sends no token that has expired, and only with the key that signed it.
    check("accepted: signed by hand", send(changes={"authorization": signed()}) == 201)
    check("refused: expired", send(changes={"authorization": signed(exp=hour - 3660)}) in (401, 403))
    forged = signed(vapid()).split(",k=")[0] + ",k=" + signed().split(",k=")[1]
    check("refused: signed by another than it says", send(changes={"authorization": forged}) in (401, 403))
    check("refused: no VAPID", send(changes={"authorization": None}) in (401, 403))
    check("refused: no TTL", send(changes={"ttl": None}) == 400)
    check("refused: the encoding of a draft", send(encoding="aesgcm") in (400, 415))
    check("refused: too long", send("x" * 4100) == 413)
    check("refused: nobody", send(endpoint=f"{base}/push/{uuid.uuid4()}") == 404)
    requests.delete(f"{base}/subscriptions/{name}", verify=authority)
    check("refused: unsubscribed", send() == 410)


def main(binary, keys, fcm, base):
    authority = f"{keys}/ca.pem"
    phone(binary, authority, fcm, base)
    strictness(base, authority)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Mismatch as error:
        sys.exit(f"FAIL {error}")
