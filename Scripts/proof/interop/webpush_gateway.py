"""pywebpush sends through the Web Push gateway, and http_ece opens what Apple's and Google's phones get.

The gateway takes the library's headers as they are, and the library understands its refusals.
"""

import json
import os
import time

import http_ece
import py_vapid
import pywebpush
import requests

from app import Caller, Mismatch, Program, check
from conformance.limits import TIMEOUT
from conformance.phones import Subscription, decode_url, encode_url, new_token, point
from webpush_sender import Altered, vapid

ENCODINGS = "aes128gcm", "aesgcm"
# The longest text whose message has the 4,096 bytes that every push service takes. The draft's has its keys in headers.
LONGEST = {"aes128gcm": 4096 - 86 - 17, "aesgcm": 4096 - 18}
# Four weeks.
LONGEST_LIFE = 28 * 86400


class Gateway(Program):
    """The service, whose endpoints begin with the address that it listens at."""

    def launch(self, *more):
        super().launch("--webpush_gateway.enabled", "true", "--http.public_url", f"http://127.0.0.1:{self.port}", *more)


class App:
    """An app that has subscribed: it knows what arrives at its phone's provider, and can open it."""

    def __init__(self, gateway, simulator, kind, sender=None):
        self.simulator, self.kind, self.token = simulator, kind, new_token(kind)
        body = {"token_kind": kind, "token": self.token}
        if kind == "apns":
            body["ios_app_id"] = gateway.app_id
        if sender:
            body["application_server_key"] = encode_url(point(sender.private_key))
        made = Caller(gateway.url)("POST", "/webpush/v1/subscriptions", body=body, status=201)
        self.id, self.endpoint, self.gateway = made["id"], made["endpoint"], gateway.url
        self.subscription = Subscription(self.endpoint)
        self.session = requests.Session()
        self.session.trust_env, self.session.headers["Authorization"] = False, f"Bearer {made['secret']}"
        self.count = 0

    def end(self):
        return self.call("DELETE", f"subscriptions/{self.id}").status_code

    def call(self, method, path):
        return self.session.request(method, f"{self.gateway}/webpush/v1/{path}", timeout=TIMEOUT, stream=True)

    def arrived(self):
        """The one that has arrived since the last call: what the app gets of it, and the provider's message."""
        since, self.count = self.count, self.count + 1
        found = self.simulator.wait([self.token], self.count)
        if len(found) != self.count:
            raise Mismatch(f"{self.kind}: {len(found) - since} arrived, not one")
        payload = found[-1]["payload"]
        told = dict(payload if self.kind == "apns" else payload["message"]["data"])
        told.pop("aps", None)
        if told.pop("subscription") != self.id:
            raise Mismatch(f"{self.kind}: for another subscription: {payload}")
        return told, found[-1]

    def waiting(self):
        """What the app reads of the bodies that wait, oldest first."""
        answer = self.call("GET", f"subscriptions/{self.id}/messages")
        if answer.status_code != 200:
            raise Mismatch(f"{self.kind}: the list of what waits: {answer.status_code} {answer.text}")
        return [self.read({"encoding": entry["encoding"], "message": entry["id"]})[0] for entry in answer.json()["messages"]]

    def read(self, told):
        """The plaintext of what the app gets, and whether it had to fetch it."""
        is_fetched = "message" in told
        if is_fetched:
            answer = self.call("GET", f"messages/{told['message']}")
            headers = answer.headers
            if answer.status_code != 200 or headers["Content-Encoding"] != told["encoding"]:
                raise Mismatch(f"{self.kind}: fetched: {answer.status_code} {headers}")
            # urllib3 does not know these encodings, so these are the bytes as they came.
            body, key, salt = answer.raw.read(), parameter(headers, "Crypto-Key", "dh"), parameter(headers, "Encryption", "salt")
        else:
            body, key, salt = decode_url(told["body"]), told.get("crypto_key"), told.get("encryption")
        known = {"private_key": self.subscription.key, "auth_secret": self.subscription.secret, "version": told["encoding"]}
        if told["encoding"] == "aesgcm":
            known |= {"dh": decode_url(key), "salt": decode_url(salt)}
        return http_ece.decrypt(body, **known).decode(), is_fetched


def parameter(headers, header, name):
    """A parameter in Crypto-Key or Encryption."""
    pairs = (pair.strip().partition("=") for pair in headers.get(header, "").replace(",", ";").split(";"))
    return next((value for found, _, value in pairs if found == name), None)


def signer(encoding):
    """A sender's key: with the draft's encryption goes the draft of VAPID, which has the key in Crypto-Key, too."""
    made = {"aes128gcm": py_vapid.Vapid02, "aesgcm": py_vapid.Vapid01}[encoding]()
    made.generate_keys()
    return made


def send(app, text, by=None, *, claims=(), endpoint=None, changes=(), ttl=60, encoding="aes128gcm", **headers):
    """What the library makes of the gateway's answer: the answer, or the exception."""
    more = {"vapid_private_key": by, "vapid_claims": {"sub": "mailto:interop@example.org", **dict(claims)}} if by else {}
    try:
        return pywebpush.webpush(
            {"endpoint": endpoint or app.endpoint, "keys": app.subscription.keys}, text, ttl=ttl, content_encoding=encoding,
            headers=headers, requests_session=Altered(True, changes), **more)
    except pywebpush.WebPushException as error:
        return error


def status(answer):
    """The status, and whether the library raised it."""
    return answer.status_code, isinstance(answer, pywebpush.WebPushException)


def bodies(gateway, simulator, kind, encoding, sender):
    """Texts arrive as they were sent, whoever may send, with and without VAPID."""
    who = f"{kind}, {encoding}, {'for one sender' if sender else 'for anybody'}"
    app = App(gateway, simulator, kind, sender)
    for text, is_long in ("Grüße 🚀", False), ("x", False), ("long " * 300, False), ("x" * LONGEST[encoding], True):
        answer = send(app, text, sender, encoding=encoding)
        check(f"{who}: accepted", status(answer) == (201, False), answer)
        check(f"{who}: Location", answer.headers["Location"].startswith(f"{gateway.url}/webpush/v1/push/"), answer.headers)
        told, _ = app.arrived()
        check(f"{who}: the encoding is told", told["encoding"] == encoding, told)
        check(f"{who}: http_ece opens {len(text)} characters", app.read(told) == (text, is_long), told)
    if sender:
        return
    answer = send(app, "signed, though nobody asked", signer(encoding), encoding=encoding)
    check(f"{who}: any sender's VAPID", status(answer) == (201, False), answer)
    check(f"{who}: http_ece opens it", app.read(app.arrived()[0])[0] == "signed, though nobody asked")
    check(f"{who}: a byte more is too long", status(send(app, "x" * (LONGEST[encoding] + 1), encoding=encoding)) == (413, True))
    check(f"{who}: no text", status(send(app, None)) == (201, False))
    check(f"{who}: no text says only whom it is for", app.arrived()[0] == {})


def is_about(life, ttl):
    """Seconds that are left to a message: the sender's, and what the machine took to answer, which may be busy."""
    return -2 < life - ttl < 30


def options(gateway, simulator):
    """TTL, urgency and topic reach the providers in their words."""
    for kind in "apns", "fcm":
        app = App(gateway, simulator, kind)

        def headers(**options):
            before = time.time()
            answer = send(app, "x", **options)
            check(f"{kind}: accepted with {options}", status(answer) == (201, False), answer)
            _, delivery = app.arrived()
            if kind == "apns":
                told = delivery["headers"]
                # 0 is Apple's word for "try once".
                life = max(0, int(told["apns-expiration"]) - before)
                is_prompt, topic = told["apns-priority"] == "10", told.get("apns-collapse-id")
            else:
                told = delivery["payload"]["message"]["android"]
                life, is_prompt, topic = int(told["ttl"].rstrip("s")), told["priority"].lower() == "high", told.get("collapse_key")
            return answer.headers["TTL"], life, is_prompt, topic

        told, life, is_prompt, topic = headers()
        check(f"{kind}: TTL", told == "60" and is_about(life, 60), (told, life))
        check(f"{kind}: urgency is normal by default", is_prompt, is_prompt)
        # What the library sends if nothing else is said: now or never.
        told, life, _, _ = headers(ttl=0)
        check(f"{kind}: TTL of 0", told == "0" and is_about(life, 0), (told, life))
        told, life, _, _ = headers(ttl=10 * LONGEST_LIFE)
        is_shortened = told == str(LONGEST_LIFE) and is_about(life, LONGEST_LIFE)
        check(f"{kind}: TTL of years is shortened, and the sender is told", is_shortened, (told, life))
        prompt = {urgency: headers(urgency=urgency)[2] for urgency in ("very-low", "low", "normal", "high")}
        check(f"{kind}: urgency", prompt == {"very-low": False, "low": False, "normal": True, "high": True}, prompt)
        topics = [headers(topic=topic)[3] for topic in ("upd", "upd", "A-Z_0" * 6 + "az")]
        if kind == "apns":
            check(f"{kind}: a topic replaces what the phone shows of it", topics[0] == topics[1] is not None, topics)
            check(f"{kind}: another topic is another, and none is none", len({topics[0], topics[2], topic, None}) == 4, topics)
            check(f"{kind}: the provider does not learn it", not any("upd" in topic or "A-Z" in topic for topic in topics), topics)
        else:
            check(f"{kind}: the provider is not told of topics", topics == [None] * 3, topics)


def long_bodies(gateway, simulator):
    """Bodies that wait for the app: what some libraries send unless they are told otherwise, 4,096 bytes and a TTL of 0."""
    for kind in "apns", "fcm":
        app = App(gateway, simulator, kind)
        text = "x" * LONGEST["aes128gcm"]
        check(f"{kind}: a long one, now or never", status(send(app, text, ttl=0)) == (201, False))
        told, delivery = app.arrived()
        check(f"{kind}: can be read all the same", app.read(told) == (text, True))
        if kind == "apns":
            check("Apple is to try once, and store nothing", delivery["headers"]["apns-expiration"] == "0", delivery["headers"])
    statuses = set()
    for _ in range(110):
        statuses.add(status(send(app, text, ttl=86400)))
        if statuses == {(201, False)}:
            app.read(app.arrived()[0])
    check("long ones that the app has read are not in the way of others", statuses == {(201, False)}, statuses)


def phone_off(gateway, simulator):
    """A phone that is off for long reads the newest hundred long messages once it is on, and nothing of another's."""
    for kind, encoding in ("apns", "aes128gcm"), ("fcm", "aesgcm"):
        key = signer(encoding)
        app, other = App(gateway, simulator, kind, key), App(gateway, simulator, kind, key)

        def post(to, *texts, **options):
            answers = {status(send(to, text.ljust(LONGEST[encoding]), key, ttl=600, encoding=encoding, **options)) for text in texts}
            check(f"{kind}: {len(texts)} long ones are accepted, {encoding}", answers == {(201, False)}, answers)

        def waiting(to):
            return [text.rstrip() for text in to.waiting()]

        numbers = [str(number) for number in range(101)]
        post(other, "of another", topic="room")
        post(app, *numbers)
        check(f"{kind}: the newest hundred wait", waiting(app) == numbers[1:])
        check(f"{kind}: and are read once", waiting(app) == [])
        post(app, "older", topic="room")
        # Matrix's Sygnal pads the topics that it makes of rooms.
        post(app, "newer", topic="room==")
        check(f"{kind}: of a topic the newest", waiting(app) == ["newer"])
        check(f"{kind}: another's waits for itself", waiting(other) == ["of another"])


def refusals(gateway, simulator):
    """Whom the gateway refuses, and that the library says so."""
    key = vapid()
    app = App(gateway, simulator, "fcm", key)
    hour = int(time.time()) + 3600
    for what, expected, options in [
        ("no VAPID", 401, {}),
        ("VAPID of another key", 403, {"by": vapid()}),
        ("another audience", 403, {"by": key, "claims": {"aud": "https://push.example.org"}}),
        ("another port", 403, {"by": key, "claims": {"aud": "http://127.0.0.1:1"}}),
        ("good for two days", 403, {"by": key, "claims": {"exp": hour + 2 * 86400}}),
        ("no TTL", 400, {"by": key, "changes": {"ttl": None}}),
        ("an urgency that is none", 400, {"by": key, "urgency": "now"}),
        ("a topic of 33 characters", 400, {"by": key, "topic": "t" * 33}),
        ("no encoding", 415, {"by": key, "changes": {"content-encoding": None}}),
        ("nobody", 404, {"by": key, "endpoint": app.endpoint[:-64] + encode_url(os.urandom(48))}),
    ]:
        answer = send(app, "x", **options)
        check(f"refused: {what}", status(answer) == (expected, True), answer)
        check(f"refused: {what}, with a sentence", json.loads(answer.response.text)["message"].endswith("."), answer)
        if expected == 401:
            check("the library shows which scheme is wanted", answer.response.headers["WWW-Authenticate"] == "vapid")

    # pywebpush itself neither sends an expired token nor names another key than the one that signed.
    def signed(by=key, exp=hour):
        return by.sign({"aud": gateway.url, "exp": exp, "sub": "mailto:interop@example.org"})["Authorization"]

    def by_hand(authorization):
        return status(send(app, "x", changes={"authorization": authorization}))

    forged = signed(vapid()).split(",k=")[0] + ",k=" + signed().split(",k=")[1]
    check("refused: expired", by_hand(signed(exp=hour - 3660)) == (403, True))
    check("refused: signed by another than it says", by_hand(forged) == (403, True))
    check("nothing of all that arrives", simulator.deliveries([app.token], accepted=False) == [])
    check("accepted: signed by hand", by_hand(signed()) == (201, False))
    app.arrived()

    check("unsubscribed", app.end() == 204)
    check("refused: unsubscribed", status(send(app, "x", key)) == (410, True))
    app = App(gateway, simulator, "apns", key)
    simulator.answer(app.token, 410, reason="Unregistered")
    check("refused: Apple says that the app is gone", [status(send(app, "x", key)) for _ in range(2)] == [(410, True)] * 2)


def main(binary, simulator):
    with Gateway(binary, simulator, {}) as gateway:
        for kind in "apns", "fcm":
            for encoding in ENCODINGS:
                for sender in None, signer(encoding):
                    bodies(gateway, simulator, kind, encoding, sender)
        options(gateway, simulator)
        long_bodies(gateway, simulator)
        phone_off(gateway, simulator)
        refusals(gateway, simulator)
