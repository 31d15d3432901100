"""A stock Nextcloud server's sender, as far as a push proxy sees it: its rows, its requests, and what it does with answers.

Plays what has gone wrong with real servers against a running service and its provider simulator: new user keys, an
emptied store, a token that the server has before the proxy, a provider that hangs, limits. Written from the facts of
the wire; shares no code with the service.
"""

import hashlib
import http.client
import json
import os
import socket
import sqlite3
import ssl
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

from nextcloud import FILES_ANDROID, FILES_IOS, OAEP, TALK_ANDROID, TALK_IOS, encode, generate, public_pem, sign
from service import Service

# Making a key takes long: phones share one, which is no concern of servers or proxies.
DEVICE_KEY = generate()


def check(what, ok, detail=""):
    if not ok:
        sys.exit(f"FAIL {what}: {detail}")
    print(f"ok  {what}", flush=True)


def http_build_query(fields):
    """As PHP writes an array (RFC 1738): a space is +, and of the marks only - _ . stand for themselves."""
    def quote(text):
        return urllib.parse.quote_plus(text, safe="").replace("~", "%7E")
    return "&".join(f"{quote(name)}={quote(value)}" for name, value in fields).encode()


def json_encode(value):
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/")


def post(url, body, user_agent="Nextcloud-Server-Crawler/33.0.0"):
    """As curl sends it for PHP: with `Expect: 100-continue`, and a wait for that, above one megabyte."""
    parts = urllib.parse.urlsplit(url)
    head = [
        f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", f"User-Agent: {user_agent}", "Accept: */*",
        "Accept-Encoding: gzip", "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}",
    ]
    expects = len(body) > 1 << 20
    if expects:
        head.append("Expect: 100-continue")
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall("\r\n".join(head + ["", ""]).encode())
        if expects:
            interim = b""
            while not interim.endswith(b"\r\n\r\n"):
                byte = connection.recv(1)
                assert byte, "the connection was closed instead of a 100"
                interim += byte
            assert interim.startswith(b"HTTP/1.1 100 "), interim
        connection.sendall(body)
        response = http.client.HTTPResponse(connection, method="POST")
        response.begin()
        return response.status, response.read()


class Phone:
    """An app with one account on a phone, as it speaks to its server and to the proxy."""

    def __init__(self, app, server, user, password_id):
        self.app, self.server, self.user, self.password_id = app, server, user, password_id
        self.new_token()

    def new_token(self):
        first, second = (os.urandom(32).hex().upper() for _ in range(2))
        self.token = {TALK_IOS: f"{first} {second}", FILES_IOS: first}.get(self.app, f"{first[:22]}:APA91b{second}")

    def tell_server(self):
        self.identity = self.server.register(self, self.proxy)

    def tell_proxy(self):
        form = {"pushToken": self.token, **self.identity}
        user_agent, path = self.app, "/devices"
        if self.app == FILES_IOS:
            path += "?format=json"
        if self.app == FILES_ANDROID:
            user_agent, form["http.useragent"] = "Jakarta Commons-HttpClient/3.1", self.app
        status, body = self.call("POST", path, user_agent, form)
        # Files on iOS takes an empty body for a failure, Files on Android any other success.
        check_quietly(status == 200 and body != b"", (status, body))

    def forget_at_proxy(self):
        query = urllib.parse.urlencode(self.identity)
        if self.app == FILES_ANDROID:
            return self.call("DELETE", "/devices", "Jakarta Commons-HttpClient/3.1", self.identity)[0]
        return self.call("DELETE", f"/devices?{query}", self.app)[0]

    def call(self, method, path, user_agent, form=None):
        parts = urllib.parse.urlsplit(self.proxy)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        headers = {"User-Agent": user_agent}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, parts.path + path, urllib.parse.urlencode(form) if form else None, headers)
        response = connection.getresponse()
        return response.status, response.read()

    @property
    def proxy(self):
        return self.server.proxy


def check_quietly(ok, detail):
    if not ok:
        sys.exit(f"FAIL {detail}")


class Server:
    """A Nextcloud server: one row for each phone, one key for each user."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.keys, self.rows, self.log, self.rate_limit_reached = {}, {}, [], False

    def key(self, user):
        if user not in self.keys:
            self.keys[user] = generate()
        return self.keys[user]

    def register(self, phone, proxy):
        preimage = json_encode([f"{phone.user}@cloud.example.org", phone.password_id]).encode()
        identifier = encode(hashlib.sha512(preimage).digest())
        key = self.key(phone.user)
        self.rows[phone.user, phone.password_id] = {
            "identifier": identifier, "hash": hashlib.sha512(phone.token.encode()).hexdigest(), "proxy": proxy}
        return {
            "deviceIdentifier": identifier, "deviceIdentifierSignature": sign(key, preimage),
            "userPublicKey": public_pem(key)}

    def entries(self, users, kind="alert", priority="high"):
        """What waits for one proxy, by address: all that one request or one cron job has gathered."""
        waiting = {}
        for (user, _), row in self.rows.items():
            if user in users:
                subject = DEVICE_KEY.public_key().encrypt(os.urandom(64), OAEP)
                waiting.setdefault(row["proxy"].rstrip("/"), []).append(json_encode({
                    "deviceIdentifier": row["identifier"], "pushTokenHash": row["hash"], "subject": encode(subject),
                    "signature": sign(self.key(user), subject), "priority": priority, "type": kind}))
        return waiting

    def notify(self, *users, kind="alert"):
        """Sends; how long that took. Nothing is ever sent again."""
        start = time.monotonic()
        for proxy, entries in self.entries(users, kind).items():
            self.send(proxy, entries)
        return time.monotonic() - start

    def send(self, proxy, entries):
        body = http_build_query((f"notifications[{index}]", entry) for index, entry in enumerate(entries))
        try:
            self.read(proxy, *post(f"{proxy}/notifications", body))
        except OSError as error:
            self.log.append(f"could not connect: {error}")

    def read(self, proxy, status, body):
        if status >= 500:
            return self.log.append(f"{status}")
        try:
            answer = json.loads(body)
            is_json = True
        except ValueError:
            answer, is_json = None, False
        if isinstance(answer, dict) and {"unknown", "failed"} <= answer.keys():
            for identifier in answer["unknown"] or []:
                # The row must have the address as it stands without a slash, or it stays.
                self.rows = {
                    key: row for key, row in self.rows.items()
                    if row["identifier"] != identifier or row["proxy"] != proxy}
            failed = answer["failed"]
            sent = type(failed) is int and failed == 0
            return self.log.append("sent" if sent else f"sent, but {failed} failed")
        if status != 200:
            self.rate_limit_reached |= status == 429
            return self.log.append(f"{status} " + ("no reason given" if is_json else body.decode().strip()))
        self.log.append("not parsable")

    def last(self):
        return self.log[-1]


class Providers:
    """The simulator's control calls."""

    def __init__(self, keys, port):
        self.base, self.context = f"https://127.0.0.1:{port}/_control", ssl.create_default_context(cafile=f"{keys}/ca.pem")
        scheme = urllib.parse.urlsplit(json.loads(Path(keys, "fcm/default.json").read_text())["token_uri"]).scheme
        if scheme == "http":
            self.base, self.context = self.base.replace("https", "http", 1), None
        self.since = self.arrived(0)[1]

    def __call__(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=30, context=self.context) as answer:
            return json.load(answer)

    def arrived(self, since):
        answer = self("GET", f"/deliveries?since={since}")
        return answer["deliveries"], answer["next"]

    def new(self, count):
        """The tokens of what has arrived since the last time, once there is so much of it."""
        deadline = time.monotonic() + 120
        while True:
            deliveries, following = self.arrived(self.since)
            if len(deliveries) >= count or time.monotonic() > deadline:
                self.since = following
                return sorted(delivery["token"].lower() for delivery in deliveries)
            time.sleep(0.1)


def tokens(phones):
    return sorted(phone.token.split(" ")[0].lower() for phone in phones)


def play(binary, keys, apns_port, fcm_port):
    providers = Providers(keys, fcm_port)
    service = Service(binary, keys, apns_port, fcm_port)
    service.start()
    server = Server(service.url)
    users = [f"user{number}" for number in range(9)]
    apps = [TALK_ANDROID, TALK_IOS, FILES_ANDROID, FILES_IOS]
    phones = [Phone(apps[(2 * n + k) % 4], server, user, 10 * n + k) for n, user in enumerate(users) for k in (0, 1)]
    for phone in phones:
        phone.tell_server()
        phone.tell_proxy()
        phone.tell_proxy()
    check("nine users' eighteen phones register, each app in its own way", len(server.rows) == 18)

    server.notify(users[0])
    check("one user's two phones get it", server.last() == "sent" and providers.new(2) == tokens(phones[:2]), server.log)
    server.notify(*users)
    check("nine users' phones get it", server.last() == "sent" and providers.new(18) == tokens(phones), server.log)
    entries = [entry for entries in server.entries([users[0]]).values() for entry in entries] * 500
    server.send(service.url, entries)
    check("a request of more than a megabyte is waited for", server.last() == "sent" and len(providers.new(2)) == 2, server.log)

    # The server has made a new key for a user.
    del server.keys[users[0]]
    server.notify(users[0])
    check("a server with new keys loses nothing", server.last() == "sent, but 2 failed" and len(server.rows) == 18, server.log)
    for phone in phones[:2]:
        phone.tell_server()
        phone.tell_proxy()
    server.notify(users[0])
    check("and works as soon as its phones have them", server.last() == "sent" and len(providers.new(2)) == 2, server.log)

    # The phone tells the server first.
    phones[0].new_token()
    phones[0].tell_server()
    server.notify(users[0])
    check("a token that the proxy has yet to get deletes nothing", server.last() == "sent, but 1 failed" and len(server.rows) == 18, server.log)
    phones[0].tell_proxy()
    providers.new(1)
    server.notify(users[0])
    check("and works when it has it", server.last() == "sent" and len(providers.new(2)) == 2, server.log)

    # What is wrong, and what is too much.
    server.read(service.url, *post(f"{service.url}/notifications", b"notification=1"))
    check("a refusal tells the admin why", server.last().startswith("400 There are no notifications"), server.log)
    service.restart("--nextcloud.rate_limit.per_address", "2/1h")
    for _ in range(4):
        server.notify(users[0])
    check(
        "a limit is no word about Nextcloud's own gateway",
        server.log[-2:] == ["503", "503"] and not server.rate_limit_reached and len(server.rows) == 18, server.log)
    providers.new(4)

    # The store is emptied.
    service.stop()
    with sqlite3.connect(service.database) as database:
        database.execute("DELETE FROM registrations WHERE device_identifier IS NOT NULL")
    database.close()
    service.start()
    server.notify(users[0])
    server.notify(*users)
    check(
        "an emptied store makes no server forget its phones",
        server.log[-2:] == ["sent, but 2 failed", "sent, but 18 failed"] and len(server.rows) == 18, server.log)
    for phone in phones:
        phone.tell_proxy()
    server.notify(*users)
    check("which all come back", server.last() == "sent" and providers.new(18) == tokens(phones), server.log)
    stranger = Phone(TALK_ANDROID, server, users[0], 99)
    stranger.tell_server()
    service.restart("--clock-offset", "2h")
    server.notify(users[0])
    check("an hour later who is not there is unknown, and nobody else", len(server.rows) == 18 and server.last() == "sent, but 1 failed", server.log)
    providers.new(2)
    service.restart()

    # A provider that hangs.
    providers("PUT", "/faults", {"latency_ms": 20000})
    took = [server.notify(users[0]) for _ in range(9)]
    check("nobody waits for a provider that hangs", max(took) < 4.5 and server.log[-9:] == ["sent"] * 9, (took, server.log))
    providers("PUT", "/faults", {})
    arrived = providers.new(18)
    time.sleep(5)
    arrived += providers.new(0)
    check("and each of nine pushes arrives once at both phones", arrived == sorted(tokens(phones[:2]) * 9), arrived)

    for phone in phones:
        check_quietly([phone.forget_at_proxy(), phone.forget_at_proxy()] == [200, 403], phone.app)
    check("phones that go are gone", True)
    unknown = Phone("Mozilla/5.0 (Android) Brand-Talk v1", server, users[0], 100)
    unknown.tell_server()
    status, _ = unknown.call("POST", "/devices", unknown.app, {"pushToken": unknown.token, **unknown.identity})
    check("an app that nobody knows is refused, and named to the operator", status == 400 and "Brand-Talk v1" in service.logged(), status)
    service.stop()


if __name__ == "__main__":
    play(*sys.argv[1:])
