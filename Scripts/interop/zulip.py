"""A stock Zulip server's way of calling a bouncer, at a running one: `requests`, as such servers use it.

It sends what servers send since 12.0 and what older ones do, waits 15 s, and classifies answers as they do: a
notification gets one try and is lost with any answer but 200; a registration gets four at once, after which its device
is pending for ever, unless an answer of 4xx tells it to have the phone come again. Checks what reaches the simulator.
Prints a line per check; exits 1 at the first that fails.

    zulip.py EXECUTABLE BOUNCER SIMULATOR KEYS     with the service's database in KEYS/service.sqlite
"""

import base64
import contextlib
import hashlib
import json
import secrets
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from pathlib import Path

import nacl.public
import requests

from app import Mismatch, Service, check, encode

TIMEOUT = 15
TRIES_OF_REGISTRATION = 4
PLACEHOLDER = {"mutable-content": 1, "alert": {"title": "New notification"}}
# What the app of that time is silent without.
SINCE_12 = {**PLACEHOLDER, "sound": "default"}


class RetryLater(Exception):
    """No answer, or one that tells of a fault of the bouncer's."""


class Refused(Exception):
    def __init__(self, code, message, status):
        super().__init__(f"{status} {code}: {message}")
        self.code, self.message, self.status = code, message, status


class Server:
    """A chat server with its credentials and one realm."""

    def __init__(self, bouncer, org_id, org_key):
        self.base = bouncer
        self.session = requests.Session()
        self.session.auth = (org_id, org_key)
        self.session.headers["User-agent"] = "ZulipServer/12.0"
        self.org_id = org_id
        self.realm = str(uuid.uuid4())

    def send(self, method, endpoint, data, *, as_json=False):
        """What an answer means to a stock server."""
        headers = {}
        if as_json:
            data, headers = json.dumps(data, separators=(",", ":")), {"Content-type": "application/json"}
        url = urllib.parse.urljoin(self.base, "/api/v1/remotes/" + endpoint)
        try:
            answer = self.session.request(method, url, data=data, headers=headers, timeout=TIMEOUT)
        except (requests.exceptions.Timeout, requests.exceptions.SSLError, requests.exceptions.ConnectionError) as error:
            raise RetryLater(f"{type(error).__name__} at {endpoint}") from error
        if answer.status_code >= 500:
            raise RetryLater(f"{answer.status_code} from {endpoint}")
        if answer.status_code >= 400:
            body = answer.json()
            raise Refused(body.get("code"), body["msg"], answer.status_code)
        if answer.status_code != 200:
            raise Refused(None, f"unexpected status code {answer.status_code}", answer.status_code)
        return answer.json()

    def upload_realm(self):
        realm = {
            "id": 2, "uuid": self.realm, "uuid_owner_secret": "zuliprealm_abc", "host": "chat.example.org",
            "url": "https://chat.example.org", "name": "Example", "org_type": 10, "date_created": 1600000000.5,
            "deactivated": False, "is_system_bot_realm": False, "authentication_methods": {"Email": True},
        }
        return self.send("POST", "server/analytics", {
            "realm_counts": "[]", "installation_counts": "[]", "realms": json.dumps([realm]), "version": '"12.0"',
            "merge_base": '"12.0"', "api_feature_level": "500",
        })

    def register(self, phone, **changes):
        """None where the bouncer has the device, else the error that its phone is told; without either it is
        pending for ever."""
        form = {**phone.registration(self.realm), **changes}
        for _ in range(TRIES_OF_REGISTRATION):
            try:
                self.send("POST", "push/e2ee/register", form)
                return None
            except RetryLater as error:
                last = error
            except Refused as error:
                known = ("INVALID_BOUNCER_PUBLIC_KEY", "REQUEST_EXPIRED", "MISSING_REMOTE_REALM")
                return error.code if error.code in known else "BAD_REQUEST"
        raise Mismatch(f"a device is pending for ever: {last}")

    def notify(self, items, **query):
        """One try: what is raised is lost."""
        return self.send("POST", "push/e2ee/notify", {"realm_uuid": self.realm, "push_requests": items}, as_json=True)


class Phone:
    def __init__(self, kind, bouncer_key, topic):
        self.kind, self.bouncer_key, self.topic = kind, bouncer_key, topic
        self.token = secrets.token_hex(32) if kind == "apns" else f"{secrets.token_hex(11)}:APA91b{secrets.token_hex(60)}"
        self.key_id = secrets.randbits(32)

    @property
    def token_id(self):
        return encode(hashlib.sha256(self.token.encode()).digest()[:8])

    def registration(self, realm, made=None):
        plain = {"token": self.token, "token_kind": self.kind, "timestamp": int(made or time.time())}
        if self.kind == "apns":
            plain["ios_app_id"] = self.topic
        box = nacl.public.SealedBox(nacl.public.PublicKey(base64.b64decode(self.bouncer_key)))
        return {
            "realm_uuid": realm, "token_id": self.token_id, "bouncer_public_key": self.bouncer_key,
            "encrypted_push_registration": encode(box.encrypt(json.dumps(plain).encode())),
        }

    def item(self, aps=SINCE_12, removal=False):
        payload = {"push_key_id": self.key_id, "encrypted_data": encode(secrets.token_bytes(300))}
        if self.kind == "fcm":
            return {"token_id": self.token_id, "fcm_priority": "normal" if removal else "high", "payload": payload}
        headers = {"apns_priority": 5 if removal else 10, "apns_push_type": "background" if removal else "alert"}
        return {"token_id": self.token_id, "http_headers": headers, "payload": {**payload, "aps": aps}}


class Simulator:
    def __init__(self, base):
        self.control = Service(base + "/_control")
        self.seen = self.control("GET", "/deliveries?since=0")["next"]

    def expect(self, what, wanted):
        """Deliveries with these bodies, by token, each once."""
        arrived, deadline = [], time.monotonic() + 60
        while len(arrived) < len(wanted) and time.monotonic() < deadline:
            answer = self.control("GET", f"/deliveries?since={self.seen}&wait=5")
            self.seen = answer["next"]
            arrived += answer["deliveries"]
        bodies = {delivery["token"]: delivery["payload"] for delivery in arrived}
        check(f"{what}: arrives as it was sent", len(arrived) == len(wanted) and bodies == wanted, arrived)

    @contextlib.contextmanager
    def outage(self):
        self.control("PUT", "/faults", body={"apns": {"outage": True}, "fcm": {"outage": True}})
        try:
            yield
        finally:
            self.control("PUT", "/faults", body={})


@contextlib.contextmanager
def locked(database, seconds):
    """Another program that writes for so long."""
    connection = sqlite3.connect(database, timeout=30, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(seconds, lambda: connection.execute("ROLLBACK"))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        connection.close()


def body_for(phone, item):
    payload = item["payload"]
    if phone.kind == "apns":
        return payload
    data = {"push_key_id": str(payload["push_key_id"]), "encrypted_data": payload["encrypted_data"]}
    return {"message": {"token": phone.token, "data": data, "android": {"priority": item["fcm_priority"]}}}


def encrypted(server, simulator, bouncer_key, topic, database):
    phones = [Phone("apns", bouncer_key, topic), Phone("fcm", bouncer_key, topic)]
    for phone in phones:
        check(f"{phone.kind}: a registration is taken", server.register(phone) is None)

    def notify(what, items, to=phones, counts=(1, 1), gone=()):
        answer = server.notify(items)
        told = (answer["apple_successfully_sent_count"], answer["android_successfully_sent_count"])
        check(f"{what}: the counts", told == counts, answer)
        check(f"{what}: the dead", answer["delete_token_ids"] == list(gone), answer)
        check(f"{what}: the realm", answer["realm_push_status"] == {"can_push": True, "expected_end_timestamp": None})
        by_token = {item.get("token_id"): item for item in items if isinstance(item, dict)}
        simulator.expect(what, {phone.token: body_for(phone, by_token[phone.token_id]) for phone in to})

    notify("a server since 12.0", [phone.item() for phone in phones])
    notify("an older server", [phone.item(PLACEHOLDER) for phone in phones])
    later = {**SINCE_12, "interruption-level": "time-sensitive", "sound": {"critical": 1, "volume": 0.5}, "badge": None}
    notify("a server of times to come", [{**phone.item(later), "more": {"x": [1]}} for phone in phones])
    notify("a removal", [phone.item(removal=True) for phone in phones])
    notify(
        "one that cannot be sent beside others",
        [{"token_id": "abc"}, phones[0].item(), Phone("apns", bouncer_key, topic).item({"x": "x" * 5000}), phones[1].item()])

    for what, changes, code in (
        ("a foreign bouncer's key", {"bouncer_public_key": encode(bytes(32))}, "INVALID_BOUNCER_PUBLIC_KEY"),
        ("an unknown realm", {"realm_uuid": str(uuid.uuid4())}, "MISSING_REMOTE_REALM"),
        ("a registration of yesterday", phones[0].registration(server.realm, time.time() - 90000), "REQUEST_EXPIRED"),
        ("another token's id", {"token_id": phones[1].token_id}, "BAD_REQUEST"),
    ):
        told = server.register(phones[0], **changes)
        check(f"{what} is refused by name", told == code, told)

    for phone in phones:
        dead = {"status": 410, "reason": "Unregistered"} if phone.kind == "apns" else {"status": 404, "reason": "UNREGISTERED"}
        token = urllib.parse.quote(phone.token, safe="")
        simulator.control("PUT", f"/tokens/{token}", body=dead)
        notify(f"{phone.kind}: a dead token", [phone.item()], to=[], counts=(0, 0), gone=[phone.token_id])
        simulator.control("PUT", f"/tokens/{token}", body={"status": 200})
        check(f"{phone.kind}: it registers again", server.register(phone) is None)
    notify("after that", [phone.item() for phone in phones])

    with simulator.outage(), locked(database, 8):
        items = [phone.item() for phone in phones]
        newcomer = Phone("fcm", bouncer_key, topic)
        calls = [threading.Thread(target=server.notify, args=(items,)), threading.Thread(target=server.register, args=(newcomer,))]
        errors = []
        threading.excepthook = lambda raised: errors.append(raised.exc_value)
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        check("a database that is held by another program for 8 s is waited for", errors == [], errors)
    simulator.expect("what was promised meanwhile", {p.token: body_for(p, i) for p, i in zip(phones, items)})
    with locked(database, 13.5):
        late = Phone("fcm", bouncer_key, topic)
        told = server.register(late)
        check("where it takes longer, the phone is told to come again", told == "BAD_REQUEST", told)
    check("and is registered then", server.register(late) is None)
    notify("both newcomers", [newcomer.item(), late.item()], to=[newcomer, late], counts=(0, 2))


def legacy(server, simulator, topic):
    user = {"user_id": 10, "user_uuid": str(uuid.uuid4())}
    tokens = {"apple": secrets.token_hex(32), "android": secrets.token_hex(80)}
    for number, (kind, token) in enumerate(tokens.items(), 1):
        server.send("POST", "push/register", {
            "server_uuid": server.org_id, **user, "realm_uuid": server.realm, "token": token, "token_kind": number,
            "ios_app_id": topic if kind == "apple" else None})
    zulip = {"realm_url": "https://chat.example.org", "user_id": 10, "message_ids": [31], "sender_full_name": "Zoë"}
    data = {"event": "message", "zulip_message_id": 31, "content": "Grüße 🚀", "time": 1700000000}
    answer = server.send("POST", "push/notify", {
        **user, "realm_uuid": server.realm, "gcm_payload": data, "gcm_options": {"priority": "high"},
        "apns_payload": {"alert": {"title": "Zoë"}, "sound": "default", "badge": 0, "custom": {"zulip": zulip}},
        "android_devices": [tokens["android"]], "apple_devices": [tokens["apple"], "c0ffee"],
    }, as_json=True)
    check("in clear: the totals", (answer["total_android_devices"], answer["total_apple_devices"]) == (1, 1), answer)
    check("in clear: what the server should forget", answer["deleted_devices"] == {"android_devices": [], "apple_devices": ["c0ffee"]})
    simulator.expect("in clear", {
        tokens["apple"]: {"zulip": zulip, "aps": {"alert": {"title": "Zoë"}, "sound": "default", "badge": 0}},
        tokens["android"]: {"message": {
            "token": tokens["android"], "android": {"priority": "high"}, "data": {name: str(value) for name, value in data.items()}}},
    })
    for token, kind in (("no hex", 1), ("", 1), (tokens["android"], 7), ("c0ffee", 1)):
        try:
            server.send("POST", "push/test_notification", {
                **user, "token": token, "token_kind": kind, "base_payload": {}}, as_json=True)
            raise Mismatch(f"a test for {token!r} was taken")
        except Refused as error:
            check("a test for a token that is not here is refused by name", error.code == "INVALID_REMOTE_PUSH_DEVICE_TOKEN", error)
    for number, token in enumerate(tokens.values(), 1):
        server.send("POST", "push/unregister", {
            "server_uuid": server.org_id, **user, "realm_uuid": server.realm, "token": token, "token_kind": number})
    check("in clear: tokens are taken back", True)


def stock_server(binary, bouncer, keys, database, hostname="stock.example.org"):
    """A chat server that the operator has let in, and the key that phones seal to."""
    added = json.loads(subprocess.run(
        [binary, "server", "add", "--hostname", hostname, "--json", "--keys.directory", keys,
         "--database.url", f"sqlite:{database}"], check=True, capture_output=True).stdout)
    bouncer_key = next(
        key["public_key"] for key in map(json.loads, map(Path.read_text, (keys / "bouncer").glob("*.json"))) if key["state"] == "active")
    return Server(bouncer, added["org_id"], added["org_key"]), bouncer_key


def main(binary, bouncer, simulator, keys):
    keys = Path(keys)
    database = keys / "service.sqlite"
    server, bouncer_key = stock_server(binary, bouncer, keys, database)
    topic = json.loads((keys / "apns/simulator.json").read_text())["topics"][0]
    answer = server.upload_realm()
    check("a realm is uploaded", answer["realms"] == {server.realm: {"can_push": True, "expected_end_timestamp": None}}, answer)
    play = Simulator(simulator)
    encrypted(server, play, bouncer_key, topic, database)
    legacy(server, play, topic)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (Mismatch, Refused, RetryLater) as error:
        sys.exit(f"FAIL {error}")
