"""push-bouncer as it is measured: a provider simulator, nodes of the service on one database, chat servers' requests."""

import base64
import contextlib
import json
import os
import random
import sqlite3
import subprocess
import time
import urllib.parse
import urllib.request
import uuid

import http_ece
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

import load
from conformance import phones, simulator
from conformance.limits import TIMEOUT
from conformance.phones import basic, encode
from processes import free_ports, memory_megabytes

REALM = "6a0f3a5e-9c1d-4a3b-8f6e-1c2d3e4f5a6b"
HOST = "chat.example.org"
TOPIC = "org.example.chat"
PUBLIC_URL = "https://push.example.org"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
BACKEND_TOKEN = "a-token-of-the-benchmark-long-enough-to-be-accepted"


def jwt(key, header, claims):
    """A token that is signed with ES256."""
    text = ".".join(phones.encode_url(json.dumps(part).encode()) for part in ({"alg": "ES256", **header}, claims))
    r, s = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{phones.encode_url(r.to_bytes(32) + s.to_bytes(32))}"


class Simulator(simulator.Simulator):
    """The simulator of Apple, Google and a push service for a run. It counts notifications and keeps none."""

    def __init__(self, binary, stack):
        super().__init__(binary)
        stack.callback(self.stop)
        self.call("PUT", "/faults", {"record": False})

    def count(self):
        counts = self.call("GET", "/counts")
        return counts["apns"] + counts["fcm"] + counts["webpush"]


class Service:
    """One service: a binary, a database with so many registrations in it, and one node or several."""

    backend_headers = {"Authorization": f"Bearer {BACKEND_TOKEN}", "Content-Type": JSON}

    def __init__(self, binary, folder, processes, simulator, database=None, nodes=1, prefill=0, settings={}, log=None):
        self.binary, self.folder, self.database = binary, folder, database
        self.processes, self.simulator, self.random = processes, simulator, random.Random(1)
        keys = folder / "Keys"
        keys.mkdir(parents=True)
        for name in ("apns", "fcm"):
            (keys / name).symlink_to(simulator.keys / name)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PUSH_BOUNCER_")},
            "PUSH_BOUNCER_DATABASE_URL": database or f"sqlite:{folder}/bench.sqlite",
            "PUSH_BOUNCER_KEYS_DIRECTORY": str(keys),
            "PUSH_BOUNCER_APNS_ENDPOINT": simulator.apns,
            "PUSH_BOUNCER_FCM_ENDPOINT": simulator.fcm,
            "PUSH_BOUNCER_PROVIDERS_CA_FILE": str(simulator.keys / "ca.pem"),
            "PUSH_BOUNCER_BOUNCER_RATE_LIMIT_PER_SERVER": "0",
            "PUSH_BOUNCER_SERVER_RATE_LIMIT_PER_USER": "0",
            # The default would send more than a thousand a second through the outbox.
            "PUSH_BOUNCER_BOUNCER_NOTIFICATIONS_PER_SERVER": "0",
            "PUSH_BOUNCER_WEBPUSH_GATEWAY_ENABLED": "true",
            "PUSH_BOUNCER_WEBPUSH_GATEWAY_RATE_LIMIT_PER_ADDRESS": "0",
            "PUSH_BOUNCER_WEBPUSH_GATEWAY_NEW_SUBSCRIPTIONS_PER_ADDRESS": "0",
            "PUSH_BOUNCER_WEBPUSH_ALLOW_PRIVATE_HOSTS": urllib.parse.urlsplit(simulator.webpush).hostname,
            "PUSH_BOUNCER_OPERATOR_EMAIL": "operator@example.org",
            "PUSH_BOUNCER_HTTP_PUBLIC_URL": PUBLIC_URL,
            "PUSH_BOUNCER_BACKEND_TOKEN": BACKEND_TOKEN,
            "PUSH_BOUNCER_LOG_LEVEL": "warning",
            **settings,
        }
        self.key = self.command("init")["public_key"]
        server = self.command("server", "add", "--hostname", HOST)
        self.authorization = basic(server["org_id"], server["org_key"])
        self.ports, self.admin_ports, self.nodes = [], [], []
        for _ in range(nodes):
            http, admin = free_ports(2)
            environment = {**self.environment, "PUSH_BOUNCER_HTTP_PORT": str(http), "PUSH_BOUNCER_ADMIN_PORT": str(admin)}
            self.nodes.append(processes.start([binary, "serve"], env=environment, cwd=folder, stderr=log))
            self.ports.append(http)
            self.admin_ports.append(admin)
            self.wait(f"http://127.0.0.1:{admin}/healthz")
        self.upload_realm()
        self.prefill(prefill)
        self.users, self.last = {}, None
        self.built_in_realm = str(uuid.uuid4())

    # What it has used.

    def cpu(self):
        return sum(self.processes.used(node) for node in self.nodes)

    def memory(self):
        return max(memory_megabytes(node.pid) for node in self.nodes)

    def own_memory(self):
        return max(memory_megabytes(node.pid, "RssAnon") for node in self.nodes)

    # Requests to it.

    def registrations(self, count, fcm_share=0.5):
        """Targets that register `count` new devices, and the tokens of these."""
        kinds = ["fcm" if self.random.random() < fcm_share else "apns" for _ in range(count)]
        return self.registrations_of([(self.token(kind), kind) for kind in kinds])

    def registrations_of(self, devices):
        tokens, bodies = [], []
        for token, kind in devices:
            token_id, sealed = self.sealed(token, kind)
            tokens.append((token_id, kind))
            bodies.append(urllib.parse.urlencode({
                "realm_uuid": REALM, "token_id": token_id, "encrypted_push_registration": sealed, "bouncer_public_key": self.key}))
        return self.chat_server_targets("push/e2ee/register", FORM, bodies), tokens

    def register(self, count, fcm_share=0.5):
        """Registers so many devices, which notifications go to. Returns their tokens."""
        return self.post_all(*self.registrations(count, fcm_share))

    def register_web(self, count):
        """The same without Google's services, each with a subscription at the simulator's push service."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}/api/v1/zulip-services/webpush/vapid", timeout=TIMEOUT) as answer:
            vapid = json.load(answer)["vapid"]
        return self.post_all(*self.registrations_of([(self.simulator.subscribe(vapid).token, "fcm") for _ in range(count)]))

    def post_all(self, targets, tokens):
        for target in targets:
            for path, body in target.requests:
                self.post(target.origin + path, body, target.headers)
        return tokens

    def notifications(self, tokens, per_request, payload, count=5_000):
        bodies = []
        for _ in range(count):
            items = [phones.item(*self.random.choice(tokens), payload) for _ in range(per_request)]
            bodies.append(json.dumps({"realm_uuid": REALM, "push_requests": items}))
        return self.chat_server_targets("push/e2ee/notify", JSON, bodies)

    def gateway_messages(self, devices):
        """Targets at the Web Push gateway: a sender with a VAPID key posts encrypted messages to so many apps."""
        sender = ec.generate_private_key(ec.SECP256R1())
        key = phones.encode_url(phones.point(sender))
        paths = []
        for number in range(devices):
            kind = ("apns", "fcm")[number % 2]
            fields = {"token_kind": kind, "token": self.token(kind), "ios_app_id": TOPIC, "application_server_key": key}
            made = self.post(f"http://127.0.0.1:{self.ports[0]}/webpush/v1/subscriptions", json.dumps(fields), {"Content-Type": JSON})
            paths.append(urllib.parse.urlparse(made["endpoint"]).path)
        token = jwt(sender, {"typ": "JWT"}, {"aud": PUBLIC_URL, "exp": int(time.time()) + 3600, "sub": "mailto:bench@example.org"})
        headers = {"TTL": "3600", "Content-Encoding": "aes128gcm", "Authorization": f"vapid t={token}, k={key}"}
        app = {"dh": phones.point(ec.generate_private_key(ec.SECP256R1())), "auth_secret": self.random.randbytes(16)}
        seal = lambda text: http_ece.encrypt(text, private_key=ec.generate_private_key(ec.SECP256R1()), version="aes128gcm", **app)
        return self.targets(headers, [(path, seal(self.random.randbytes(300))) for path in paths])

    def sealed_notifications(self, devices):
        """Targets at the built-in chat server: the host application sends a notification, which is sealed for each device."""
        url = f"http://127.0.0.1:{self.ports[0]}/backend/v1/realms"
        realm = self.built_in_realm
        if not self.users:
            self.backend("PUT", f"{url}/{realm}", {"name": "Bench", "url": f"https://{HOST}"})
        user = self.users.setdefault(devices, 10 + devices)
        account = self.backend("PUT", f"{url}/{realm}/users/{user}", {"email": f"user{user}@example.org"})
        self.phones(account, devices)
        payload = {"type": "message", "recipient_type": "direct", "content": "x" * 200, "sender_full_name": "Iago", "message_id": 1}
        path = f"/backend/v1/realms/{realm}/users/{user}/notifications"
        body = json.dumps({"zulip": payload})
        return self.targets(self.backend_headers, [(path, body)] * len(self.ports))

    def phones(self, account, count):
        """Registers devices of a user of the built-in server, and waits until they are active."""
        headers = {"Authorization": basic(account["email"], account["api_key"]), "Content-Type": FORM}

        def call(endpoint, **fields):
            url = f"http://127.0.0.1:{self.ports[0]}/api/v1/{endpoint}"
            return self.post(url, urllib.parse.urlencode(fields), headers)

        # Not Google's, for which there is a pace.
        for _ in range(count):
            token_id, sealed = self.sealed(self.token("apns"), "apns")
            call(
                "mobile_push/register", device_id=call("register_client_device")["device_id"], push_key_id=1,
                push_key=encode(b"1" + self.random.randbytes(32)), token_kind="apns", token_id=token_id,
                bouncer_public_key=self.key, encrypted_push_registration=sealed)
        for _ in range(300):
            devices = call("register", event_types='["device"]')["devices"].values()
            if all(device["push_token_id"] for device in devices):
                return
            time.sleep(0.1)
        raise SystemExit(f"devices are not active: {list(devices)[:3]}")

    def chat_server_targets(self, endpoint, content_type, bodies):
        """Targets to which a chat server posts."""
        headers = {"Authorization": self.authorization, "Content-Type": content_type}
        return self.targets(headers, [(f"/api/v1/remotes/{endpoint}", body) for body in bodies])

    def targets(self, headers, requests):
        """The requests, each of which is a path and a text, shared out among the nodes."""
        requests = [(path, body if isinstance(body, bytes) else body.encode()) for path, body in requests]
        count = len(self.ports)
        return [
            load.Target(f"http://127.0.0.1:{port}", headers, requests[node::count]) for node, port in enumerate(self.ports)]

    def token(self, kind):
        return base64.urlsafe_b64encode(self.random.randbytes(105)).decode() if kind == "fcm" else self.random.randbytes(32).hex()

    def sealed(self, token, kind):
        """The id of a token, and its registration sealed to the bouncer."""
        return phones.token_id(token), phones.seal(self.key, phones.registration(token, kind, TOPIC))

    def upload_realm(self):
        body = urllib.parse.urlencode(phones.upload(phones.realm(uuid=REALM)))
        url = f"http://127.0.0.1:{self.ports[0]}/api/v1/remotes/server/analytics"
        self.post(url, body, {"Authorization": self.authorization, "Content-Type": FORM})

    def prefill(self, count):
        """Adds registrations that no notification goes to, so that the database is as large as wanted."""
        columns = "wire, realm_id, token_id, kind, token, token_hash, registered_at"
        if count and self.database:
            sql = f"""INSERT INTO registrations ({columns})
                SELECT 1, 1, hashint8extended(i, 1), 2, sha256(int8send(i)) || sha256(int8send(-i)), hashint8extended(i, 2), 1
                FROM generate_series(1::bigint, {count}) i"""
            # Otherwise the first reader of the new rows would spend time on marking them as committed.
            subprocess.run(["psql", "--quiet", self.database, "-c", sql, "-c", "VACUUM ANALYZE", "-c", "CHECKPOINT"], check=True)
        elif count:
            database = sqlite3.connect(self.folder / "bench.sqlite")
            # The keys come in random order. With its default cache of 2 MB SQLite would read and write the file over and
            # over, while the service waits.
            database.execute("PRAGMA cache_size = -400000")
            number = lambda: self.random.getrandbits(64) - (1 << 63)
            rows = [(1, 1, number(), 2, self.random.randbytes(64), number(), 1) for _ in range(count)]
            database.executemany(f"INSERT INTO registrations ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            database.commit()
            database.close()

    def forget_new(self):
        """Removes the registrations that came after the first call, so that the number of registrations stays the same."""
        if self.database:
            ask = lambda sql: subprocess.run(
                ["psql", "--quiet", "--tuples-only", "--no-align", self.database, "-c", sql], check=True, capture_output=True, text=True).stdout
            self.last = self.last or int(ask("SELECT coalesce(max(id), 0) FROM registrations"))
            ask(f"DELETE FROM registrations WHERE id > {self.last}")
            return
        with contextlib.closing(sqlite3.connect(self.folder / "bench.sqlite", timeout=60)) as database, database:
            self.last = self.last or database.execute("SELECT coalesce(max(id), 0) FROM registrations").fetchone()[0]
            database.execute("DELETE FROM registrations WHERE id > ?", (self.last,))

    def command(self, *arguments):
        output = subprocess.run(
            [self.binary, *arguments, "--json"], env=self.environment, cwd=self.folder, capture_output=True, text=True)
        if output.returncode:
            raise SystemExit(f"push-bouncer {' '.join(arguments)}: {output.stderr}")
        return json.loads(output.stdout)

    def backend(self, method, url, body):
        return self.post(url, json.dumps(body), self.backend_headers, method)

    @staticmethod
    def post(url, body, headers, method="POST"):
        data = body if isinstance(body, bytes) else body.encode()
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return json.load(answer)

    @staticmethod
    def wait(url):
        for _ in range(300):
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(url, timeout=TIMEOUT).read()
            time.sleep(0.1)
        raise SystemExit(f"{url} does not answer")
