"""Other projects' clients and gateways on the same simulator, with the same payloads."""

import contextlib
import json
import math
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

from cryptography.hazmat.primitives import serialization

import load
from conformance.phones import encode
from processes import free_ports, memory_megabytes
from service import TOPIC, jwt

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "Benchmarks/peers"


class Peer:
    def __init__(self, processes, command, **options):
        self.processes, self.process = processes, processes.start(command, **options)

    def cpu(self):
        return self.processes.used(self.process)

    def memory(self):
        return memory_megabytes(self.process.pid)


class Client(Peer):
    """A process that only sends: it has neither an HTTP listener nor a database."""

    def __init__(self, name, command, processes):
        super().__init__(processes, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = name

    def run(self, concurrency, seconds):
        self.process.stdin.write(f"{concurrency} {seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended")
        return load.Load(**json.loads(line))


def python_client(name, script, endpoint, folder, processes, simulator, tokens, payload):
    file = folder / f"{name}.tokens"
    file.write_text("\n".join(tokens))
    return Client(name, [sys.executable, HERE / script, simulator.keys, endpoint, file, json.dumps(payload)], processes)


def aioapns(folder, processes, simulator, tokens, payload):
    payload = {**payload, "aps": {"mutable-content": 1, "alert": {"title": "New notification"}}}
    return python_client("aioapns", "aioapns_client.py", simulator.apns, folder, processes, simulator, tokens, payload)


def firebase_admin(folder, processes, simulator, tokens, payload):
    payload = {key: str(value) for key, value in payload.items()}
    return python_client("firebase-admin", "firebase_client.py", simulator.fcm, folder, processes, simulator, tokens, payload)


class APNsRequests:
    """The requests of a client of Apple's, made once, as a program sends them that makes none itself."""

    def __init__(self, folder, simulator, tokens, payload):
        description = json.loads((simulator.keys / "apns/simulator.json").read_text())
        key = serialization.load_pem_private_key((simulator.keys / "apns" / description["key_file"]).read_bytes(), None)
        token = jwt(key, {"kid": description["key_id"]}, {"iss": description["team_id"], "iat": int(time.time())})
        self.headers = {
            "Authorization": f"bearer {token}", "apns-topic": description["topics"][0], "apns-push-type": "alert", "apns-priority": "10"}
        self.body = json.dumps({**payload, "aps": {"mutable-content": 1, "alert": {"title": "New notification"}}}).encode()
        self.paths = [f"/3/device/{token}" for token in tokens]
        self.folder, self.origin = folder, simulator.apns


def clients(requests, processes, simulator, program):
    """Clients of HTTP/2 alone, over one connection each: ours and AsyncHTTPClient, in `program`, and libcurl."""
    libcurl = requests.folder / "libcurl_client"
    subprocess.run(["clang", "-O2", "-o", libcurl, HERE / "libcurl_client.c", "-lcurl"], check=True)
    paths, body = requests.folder / "client.paths", requests.folder / "client.body"
    paths.write_text("\n".join(requests.paths) + "\n")
    body.write_bytes(requests.body)
    arguments = [requests.origin, simulator.keys / "ca.pem", paths, body, *(f"{name}:{value}" for name, value in requests.headers.items())]
    commands = {"our client": [program, "own"], "AsyncHTTPClient": [program, "async-http-client"], "libcurl": [libcurl]}
    return [Client(name, command + arguments, processes) for name, command in commands.items()]


class H2load:
    """The floor of a client: C, one connection, the same requests over and over. It looks at nothing of the answers but
    their status, nor at the certificate."""

    name = "h2load"

    def __init__(self, requests, processes):
        self.requests, self.processes, self.used = requests, processes, 0
        self.paths, self.body = requests.folder / "h2load.paths", requests.folder / "h2load.body"
        self.paths.write_text("\n".join(requests.origin + path for path in requests.paths) + "\n")
        self.body.write_bytes(requests.body)

    def cpu(self):
        return self.used

    def memory(self):
        return math.nan

    def run(self, concurrency, seconds):
        return self.send(concurrency, seconds, f"--duration={seconds}")

    def send(self, concurrency, seconds, *options):
        command = ["h2load", *options, "-c1", f"-m{concurrency}", f"--input-file={self.paths}", f"--data={self.body}"]
        for name, value in self.requests.headers.items():
            command += ["-H", f"{name}: {value}"]
        output, used = self.processes.run(command)
        self.used += used
        counts = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed", output)
        if not counts:
            raise SystemExit(f"h2load: {output}")
        done, succeeded, _ = map(int, counts.groups())
        # It tells no percentiles.
        return load.Load(succeeded, seconds, math.nan, math.nan, refused=done - succeeded)


class Nghttpx(Peer):
    """The floor of a relay: C, HTTP/1.1 in, HTTP/2 and TLS out. It knows neither JSON nor a database, and loses what it has when
    it ends."""

    name = "nghttpx"

    def __init__(self, requests, processes):
        self.requests = requests
        (port,) = free_ports(1)
        provider = urllib.parse.urlsplit(requests.origin)
        super().__init__(processes, [
            "nghttpx", "--conf=/dev/null", "--workers=1", "--single-process", f"--frontend=127.0.0.1,{port};no-tls",
            f"--backend={provider.hostname},{provider.port};;proto=h2;tls", "--insecure", "--accesslog-file=/dev/null", "--errorlog-file=/dev/null"])
        self.target = load.Target(f"http://127.0.0.1:{port}", requests.headers, [(path, requests.body) for path in requests.paths])
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return
            time.sleep(0.1)
        raise SystemExit("nghttpx does not listen")

    def run(self, concurrency, seconds):
        return load.closed(self.requests.folder, [self.target], concurrency, seconds)


class Sygnal(Peer):
    """Matrix's push gateway, from a checkout, in a Python of its own: it wants an older aioapns than the one that is measured
    beside it. At 64 at once it refuses some."""

    name = "Sygnal"

    def __init__(self, sources, folder, processes, simulator, tokens, payload):
        description = json.loads((simulator.keys / "apns/simulator.json").read_text())
        (self.port,) = free_ports(1)
        app = {
            "type": "apns", "keyfile": str(simulator.keys / "apns" / description["key_file"]), "key_id": description["key_id"],
            "team_id": description["team_id"], "topic": description["topics"][0], "platform": "production"}
        config = {
            "apps": {TOPIC: app}, "http": {"bind_addresses": ["127.0.0.1"], "port": self.port},
            "log": {"setup": {"version": 1}, "access": {"x_forwarded_for": False}}}
        file = folder / "sygnal.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        environment = {**os.environ, "SYGNAL_CONF": str(file), "SSL_CERT_FILE": str(simulator.keys / "ca.pem")}
        super().__init__(processes, [installed(sources), HERE / "sygnal_server.py", simulator.apns], env=environment)
        self.folder = folder
        devices = [{"app_id": TOPIC, "pushkey": encode(bytes.fromhex(token)), "data": {"default_payload": payload}} for token in tokens]
        bodies = [json.dumps({"notification": {"event_id": "$1", "room_id": "!1", "prio": "high", "devices": [device]}}) for device in devices]
        requests = [("/_matrix/push/v1/notify", body.encode()) for body in bodies]
        self.target = load.Target(f"http://127.0.0.1:{self.port}", {"Content-Type": "application/json"}, requests)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).read()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("Sygnal does not answer")

    def run(self, concurrency, seconds):
        return load.closed(self.folder, [self.target], concurrency, seconds)


def installed(sources):
    """The interpreter of a Python with Sygnal of these sources and what it needs. It says nothing against aioapns 4, but does not
    run with it."""
    venv = ROOT / ".build/python/Benchmarks-sygnal"
    python = venv / "bin/python"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", sources, "aioapns<4"], check=True)
    return python
