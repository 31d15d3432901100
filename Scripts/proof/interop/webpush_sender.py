"""pywebpush sends to the simulator's push service, which checks each message, and our virtual phone opens them.

The phone's bouncer is written in Python: it opens the phone's registration, and sends with pywebpush.
"""

import json
import subprocess
import time
import urllib.parse
import uuid

import nacl.public
import py_vapid
import pywebpush
import requests

from app import check
from conformance.bouncer import DEFAULTS, success
from conformance.limits import TIMEOUT
from conformance.phones import Subscription, decode, decode_url, encode, encode_url, point
from conformance.played import Played

TEXTS = ["Grüße 🚀", "long " * 400]


def vapid():
    made = py_vapid.Vapid02()
    made.generate_keys()
    return made


class Altered(requests.Session):
    """Sends other headers than pywebpush has made, and leaves out those that are None."""

    def __init__(self, authority, changes=()):
        super().__init__()
        # Otherwise requests would trust the authorities that the environment names.
        self.trust_env, self.verify, self.changes = False, authority, dict(changes)

    def post(self, url, headers, **rest):
        headers = {**headers, **self.changes}
        return super().post(url, headers={name: value for name, value in headers.items() if value is not None}, **rest)


class Bouncer(Played):
    """As much of a bouncer as a phone that plays its chat server needs."""

    def __init__(self, authority):
        self.box, self.vapid, self.session = nacl.public.PrivateKey.generate(), vapid(), Altered(authority)
        self.tokens, self.sent = {}, []
        super().__init__()

    def answer(self, method, path, headers, body):
        if method == "GET":
            return success(vapid=encode_url(point(self.vapid.private_key)))
        if path.endswith("/push/e2ee/register"):
            self.register(dict(urllib.parse.parse_qsl(body.decode())))
            return success()
        items = json.loads(body)["push_requests"]
        self.notify(items)
        return 200, {**DEFAULTS["push/e2ee/notify"][1], "android_successfully_sent_count": len(items), "realm_push_status": {
            "can_push": True, "expected_end_timestamp": None}}

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


def phone(binary, authority, fcm, base):
    bouncer = Bouncer(authority)
    sends = [word for text in TEXTS for word in ("--send", text)]
    played = subprocess.run([
        binary, "device", "phone", "--kind", "webpush", "--org-id", str(uuid.uuid4()), "--org-key", "k" * 64, "--realm",
        str(uuid.uuid4()), "--bouncer", bouncer.url, "--public-key", encode(bytes(bouncer.box.public_key)), "--simulator", fcm,
        "--push-service", base, "--ca-file", authority, "--count", str(len(TEXTS)), "--json", *sends],
        capture_output=True, text=True, timeout=TIMEOUT)
    check("pywebpush: what it sends to our phone is accepted", bouncer.sent == [201] * len(TEXTS), (bouncer.sent, played.stderr))
    told = [json.loads(json.loads(line)["plaintext"])["content"] for line in played.stdout.splitlines() if line]
    check("pywebpush: our phone opens it", told == TEXTS, (told, played.stderr))
    bouncer.stop()


def strictness(base, authority):
    """Whose messages the simulator's push service accepts."""
    key = vapid()
    made = requests.post(base + "/subscriptions", json={"vapid": encode_url(point(key.private_key))}, verify=authority)
    check("simulator: a subscription with py_vapid's key", made.status_code == 201, made.text)
    subscription = Subscription(made.json()["endpoint"])

    def send(text="Grüße 🚀", *, key=key, claims=(), endpoint=subscription.endpoint, encoding="aes128gcm", changes=()):
        claims = {"sub": "mailto:interop@example.org", **dict(claims)}
        try:
            return pywebpush.webpush(
                {"keys": subscription.keys, "endpoint": endpoint}, text, vapid_private_key=key, vapid_claims=claims, ttl=60,
                content_encoding=encoding, requests_session=Altered(authority, changes)).status_code
        except pywebpush.WebPushException as error:
            return error.status_code

    check("pywebpush: accepted", [send(), send("x"), send("long " * 700)] == [201] * 3)
    hour = int(time.time()) + 3600
    check("refused: another audience", send(claims={"aud": "https://push.example.org"}) in (401, 403))
    check("refused: another port", send(claims={"aud": "https://127.0.0.1:1"}) in (401, 403))
    check("taken: no port, as PHP's minishlink/web-push writes it", send(claims={"aud": "https://127.0.0.1"}) == 201)
    check("refused: good for two days", send(claims={"exp": hour + 2 * 86400}) in (401, 403))
    check("refused: another key", send(key=vapid()) in (401, 403))

    def signed(by=key, exp=hour):
        return by.sign({"aud": base, "exp": exp, "sub": "mailto:interop@example.org"})["Authorization"]

    # pywebpush itself neither sends an expired token nor names another key than the one that signed.
    check("accepted: signed by hand", send(changes={"authorization": signed()}) == 201)
    check("refused: expired", send(changes={"authorization": signed(exp=hour - 3660)}) in (401, 403))
    forged = signed(vapid()).split(",k=")[0] + ",k=" + signed().split(",k=")[1]
    check("refused: signed by another than it says", send(changes={"authorization": forged}) in (401, 403))
    check("refused: no VAPID", send(changes={"authorization": None}) in (401, 403))
    check("refused: no TTL", send(changes={"ttl": None}) == 400)
    check("refused: the encoding of a draft", send(encoding="aesgcm") in (400, 415))
    check("refused: too long", send("x" * 4100) == 413)
    check("refused: nobody", send(endpoint=f"{base}/push/{uuid.uuid4()}") == 404)
    requests.delete(f"{base}/subscriptions/{subscription.id}", verify=authority)
    check("refused: unsubscribed", send() == 410)


def main(binary, simulator):
    authority = str(simulator.keys / "ca.pem")
    phone(binary, authority, simulator.fcm, simulator.webpush)
    strictness(simulator.webpush, authority)
