"""push-bouncer itself, each time on a folder of its own."""

import contextlib
import itertools
import json
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
import types
import uuid
from pathlib import Path

import nacl.public

from conformance import bouncer, http, proxy
from conformance.limits import TIMEOUT
from conformance.phones import decode, encode

from . import ALL, Running, Unsupported
from . import Implementation as Base

#: Bearer token of its backend API.
TOKEN = "conformance-conformance"

OPTIONS = {
    "registration": "bouncer.registration",
    "allowed_hostnames": "bouncer.allowed_hostnames",
    "verify_hostnames": "bouncer.verify_hostnames",
    "calls_per_address": "http.rate_limit.per_address",
    "calls_per_server": "bouncer.rate_limit.per_server",
    "notifications_per_server": "bouncer.notifications_per_server",
    "body_limit": "http.max_body_bytes",
    "bodies_in_flight": "http.max_bytes_in_flight",
    "deadline": "delivery.deadline",
    "max_age": "delivery.max_age",
    "web_push": "webpush.enabled",
    "verify_private": "bouncer.verify_allow_private_addresses",
    "calls_per_user": "server.rate_limit.per_user",
    "removals_as_alerts": "server.removals_as_alerts",
    "bouncer": "server.bouncer",
    "org_id": "server.org_id",
    "org_key": "server.org_key",
    "default_proxy": "nextcloud.default_proxy",
    "local_proxies": "nextcloud.allow_local_proxies",
    "padding": "nextcloud.padding",
    "nextcloud": "nextcloud.enabled",
    "new_devices_per_address": "nextcloud.new_devices_per_address",
    "proxy_calls_per_address": "nextcloud.rate_limit.per_address",
    "default_app": "nextcloud.default_app",
    "proxy_deadline": "nextcloud.deadline",
    "subscription_server": "nextcloud.subscription_server",
    "subscription_key": "nextcloud.subscription_key",
    "webpush_browsers": "nextcloud.webpush_browsers",
    "gateway": "webpush_gateway.enabled",
    "gateway_deadline": "webpush_gateway.deadline",
    "gateway_calls_per_address": "webpush_gateway.rate_limit.per_address",
    "new_subscriptions_per_address": "webpush_gateway.new_subscriptions_per_address",
}
DEFAULTS = {
    "registration": "open", "calls_per_address": 0, "calls_per_server": 0, "deadline": "10s", "local_proxies": True, "verify_private": True,
    "nextcloud": True, "gateway": True, "gateway_deadline": "10s", "gateway_calls_per_address": 0, "new_subscriptions_per_address": 0,
}


class Implementation(Base):
    roles = ("zulip_bouncer", "zulip_server", "nextcloud_proxy", "nextcloud_server", "webpush_gateway")
    claims = ALL

    def start(self, settings):
        if settings.get("bouncer") == "played":
            settings = {**settings, **bouncer.shared().settings}
        for name, place in (("default_proxy", "default"), ("subscription_server", "subscribed")):
            if settings.get(name) == "played":
                settings = {**settings, name: f"{proxy.shared().url}/{place}"}
        if unknown := settings.keys() - OPTIONS.keys() - {"bouncer_private_key", "apps"}:
            raise Unsupported(f"unknown settings: {', '.join(sorted(unknown))}")
        return Service(self.program, self.simulator, settings)


# Below those that the system gives to outgoing calls, and in each process of pytest others: nobody takes one before a
# service listens there, or while it is started again.
_first = 10_000 + 2_500 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw3").removeprefix("gw")) % 4)
_ports = itertools.cycle(random.sample(range(_first, _first + 2_500), 2_500))


def free_port():
    """A port that nobody listens at."""
    for port in _ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Service(Running):
    """`simulator` has the folder of keys and the addresses of the providers. `options` are more words of the command."""

    app_id = "org.example.chat"

    def __init__(self, program, simulator, settings, *options, database=None):
        self.program = program
        self.folder = tempfile.TemporaryDirectory(prefix="conformance.")
        # A folder of keys remembers the database that it was used with.
        self.keys = Path(shutil.copytree(simulator.keys, Path(self.folder.name, "Keys")))
        self.place = ["--keys.directory", self.keys, "--database.url", database or f"sqlite:{self.folder.name}/service.sqlite"]
        self.options = [
            *self.place, "--providers.ca_file", self.keys / "ca.pem", "--bouncer.verify_ca_file", self.keys / "ca.pem",
            "--apns.endpoint", simulator.apns, "--fcm.endpoint", simulator.fcm,
            "--webpush.allow_private_hosts", "127.0.0.1, localhost",
            "--backend.token", TOKEN, "--log.format", "json", *options]
        settings = {**DEFAULTS, **settings}
        if private := settings.pop("bouncer_private_key", None):
            public = nacl.public.PrivateKey(decode(private)).public_key
            for path in (self.keys / "bouncer").glob("*.json"):
                path.unlink()
            pair = {"private_key": private, "public_key": encode(bytes(public)), "state": "active",
                    "created_at": "2025-01-01T00:00:00Z"}
            (self.keys / "bouncer" / "example.json").write_text(json.dumps(pair))
            (self.keys / "bouncer" / "example.json").chmod(0o600)
        if (apps := settings.pop("apps", None)) is not None:
            Path(self.folder.name, "apps.json").write_text(json.dumps(apps))
            self.options += ["--nextcloud.apps_file", "apps.json"]
        for name, value in settings.items():
            text = ", ".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)
            self.options += [f"--{OPTIONS[name]}", text]
        self.port, self.admin_port = free_port(), free_port()
        self.users = 0
        self.realm = None
        self.launch()

    def launch(self, *more):
        log = Path(self.folder.name, "log")
        self.process = subprocess.Popen(
            [self.program, "serve", "--http.port", str(self.port), "--admin.port", str(self.admin_port), *self.options, *more],
            stderr=log.open("w"), cwd=self.folder.name)
        deadline = time.monotonic() + TIMEOUT
        ports = {}
        while len(ports) < 2:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"push-bouncer does not start: {log.read_text()}")
            time.sleep(0.02)
            for line in log.read_text().splitlines():
                if '"listener"' in line and line.endswith("}"):
                    entry = json.loads(line)
                    ports[entry["listener"]] = entry["port"]
        self.port, self.admin_port = ports["public"], ports["admin"]
        self.url, self.admin_url = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.admin_port}"

    def bouncer_key(self):
        pairs = (json.loads(path.read_text()) for path in (self.keys / "bouncer").glob("*.json"))
        return next(pair["public_key"] for pair in pairs if pair["state"] == "active")

    def admit_server(self, hostname):
        added = json.loads(self.command("server", "add", "--hostname", hostname, "--json"))
        return added["org_id"], added["org_key"]

    def deactivate_server(self, id):
        self.command("server", "deactivate", id)

    def reactivate_server(self, id):
        self.command("server", "reactivate", id)

    def release_realm(self, uuid):
        self.command("server", "release-realm", uuid)

    def add_bouncer_key(self):
        known = self.bouncer_keys()
        self.command("keys", "generate")
        return next(key for key in self.bouncer_keys() if key not in known)

    def bouncer_keys(self):
        return [json.loads(path.read_text())["public_key"] for path in (self.keys / "bouncer").glob("*.json")]

    def retire_bouncer_key(self, key):
        self.command("keys", "retire", key)

    def remove_bouncer_key(self, key):
        self.command("keys", "remove", key, "--force")

    def backend(self, method, path, body=None):
        """The backend API, as a host application calls it."""
        return http.send(self.url, method, f"/backend/v1/realms/{self.realm}{path}", {"Authorization": f"Bearer {TOKEN}"},
                         None if body is None else json.dumps(body).encode())

    def add_user(self, name):
        if self.realm is None:
            self.realm = str(uuid.uuid4())
            self.change_realm()
        self.users += 1
        email = f"{name.encode('ascii', 'ignore').decode()}@example.org"
        made = self.backend("PUT", f"/users/{self.users}", {"email": email, "username": name}).body
        return types.SimpleNamespace(id=self.users, login=name, email=made["email"], key=made["api_key"])

    def add_app_password(self, user):
        made = self.backend("POST", f"/users/{user.id}/app-passwords", {"name": "App"}).body
        return made["password"], made["id"]

    def change_user(self, user, **members):
        return self.backend("PUT", f"/users/{user.id}", {"email": user.email, "username": user.login, **members})

    def require_encryption(self, wanted):
        self.change_realm(require_e2ee_push_notifications=wanted)

    def rename_realm(self, name):
        self.change_realm(name=name)

    def change_realm(self, **members):
        self.backend("PUT", "", {"name": "Conformance", "url": "https://chat.example.org", **members})

    def grant_login(self, user, token):
        return self.backend("POST", f"/users/{user.id}/login-flows", {"token": token})

    def remove_user(self, user):
        return self.backend("DELETE", f"/users/{user.id}")

    def notify(self, user, parts):
        return self.backend("POST", f"/users/{user.id}/notifications", parts)

    def command(self, *words):
        """What an operator types; returns its output."""
        return subprocess.run(
            [self.program, *words, *self.place], check=True, capture_output=True, text=True, cwd=self.folder.name).stdout

    @contextlib.contextmanager
    def without_database(self):
        """Another program writes."""
        connection = sqlite3.connect(Path(self.folder.name, "service.sqlite"), timeout=TIMEOUT, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()

    def lose_database(self):
        self.is_spent = True
        self.end()
        for path in Path(self.folder.name).glob("service.sqlite*"):
            path.unlink()
        self.launch()

    def last_words(self):
        return None if self.process.poll() is None else Path(self.folder.name, "log").read_text()[-2000:]

    def kill(self):
        self.process.kill()
        self.process.wait(TIMEOUT)

    def restart(self):
        self.end()
        self.launch()

    def restart_later(self, seconds):
        self.is_spent = True
        self.end()
        self.launch("--clock-offset", f"{seconds}s")

    def end(self):
        # A graceful stop stores the answers of pushes under way, so that they are not sent again.
        self.process.terminate()
        self.process.wait(TIMEOUT)

    def stop(self):
        self.end()
        self.folder.cleanup()
