"""Other projects' clients and gateways on the same simulator, with the same payloads."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import load
from conformance.phones import encode
from processes import cpu_seconds, free_ports, memory_megabytes
from service import TOPIC

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "Benchmarks/peers"


class Peer:
    def cpu(self):
        return cpu_seconds(self.process.pid)

    def memory(self):
        return memory_megabytes(self.process.pid)


class Client(Peer):
    """A process that only sends: it has neither an HTTP listener nor a database."""

    def __init__(self, name, script, endpoint, folder, processes, simulator, tokens, payload):
        self.name = name
        file = folder / f"{name}.tokens"
        file.write_text("\n".join(tokens))
        self.process = processes.start(
            [sys.executable, HERE / script, simulator.keys, endpoint, file, json.dumps(payload)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, concurrency, seconds):
        self.process.stdin.write(f"{concurrency} {seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended")
        return load.Load(**json.loads(line))


def aioapns(folder, processes, simulator, tokens, payload):
    payload = {**payload, "aps": {"mutable-content": 1, "alert": {"title": "New notification"}}}
    return Client("aioapns", "aioapns_client.py", simulator.apns, folder, processes, simulator, tokens, payload)


def firebase_admin(folder, processes, simulator, tokens, payload):
    payload = {key: str(value) for key, value in payload.items()}
    return Client("firebase-admin", "firebase_client.py", simulator.fcm, folder, processes, simulator, tokens, payload)


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
        self.process = processes.start([installed(sources), HERE / "sygnal_server.py", simulator.apns], env=environment)
        self.folder = folder
        devices = [{"app_id": TOPIC, "pushkey": encode(bytes.fromhex(token)), "data": {"default_payload": payload}} for token in tokens]
        bodies = [json.dumps({"notification": {"event_id": "$1", "room_id": "!1", "prio": "high", "devices": [device]}}) for device in devices]
        self.target = load.Target(f"http://127.0.0.1:{self.port}/_matrix/push/v1/notify", "", "application/json", bodies)
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
