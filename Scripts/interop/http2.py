"""Apple and Google as python-h2 plays them, which takes no byte that the protocol does not allow.

Our HTTP/2 client is our own, and so are the simulators that all else meets: this is somebody else's word on it. One
server is generous; one remembers little, takes bodies by the spoonful and few at a time, pings, pads and says goodbye.
Starts a service of its own; prints a line per check, exits 1 at the first that fails.

    http2.py EXECUTABLE KEYS     with the credentials of a running simulator in KEYS, which grants access tokens
"""

import asyncio
import datetime
import json
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from h2.settings import SettingCodes

from app import Mismatch, check
from zulip import Phone, Refused, RetryLater, Server

# A connection answers so many requests.
LAST = 40
GENEROUS = {SettingCodes.MAX_CONCURRENT_STREAMS: 1000}
MEAN = {SettingCodes.MAX_CONCURRENT_STREAMS: 3, SettingCodes.INITIAL_WINDOW_SIZE: 100, SettingCodes.HEADER_TABLE_SIZE: 200}


class Provider(asyncio.Protocol):
    """One connection."""

    def __init__(self, settings, seen):
        self.settings, self.seen = settings, seen
        self.requests = {}
        self.answered = 0

    def connection_made(self, transport):
        self.transport = transport
        self.seen["connections"] += 1
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=self.settings)
        self.h2.initiate_connection()
        self.h2.update_settings(self.settings)
        self.flush()

    def flush(self):
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data):
        try:
            for event in self.h2.receive_data(data):
                # What has come after the goodbye goes elsewhere.
                if self.answered < LAST:
                    self.take(event)
        except h2.exceptions.ProtocolError as error:
            self.seen["violations"].append(repr(error))
            self.transport.close()
        self.flush()

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = (dict(event.headers), bytearray())
        elif isinstance(event, h2.events.DataReceived):
            self.requests[event.stream_id][1].extend(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.answer(event.stream_id, *self.requests.pop(event.stream_id))

    def answer(self, stream, headers, body):
        path = headers[b":path"].decode()
        body = json.loads(body)
        token = path.removeprefix("/3/device/") if path.startswith("/3/device/") else body["message"]["token"]
        self.seen["tokens"].append(token)
        self.answered += 1
        self.h2.ping(b"are you?")
        if path.startswith("/3/device/"):
            self.h2.send_headers(stream, [(":status", "200"), ("apns-id", headers[b"apns-id"].decode())], end_stream=True)
        else:
            name = b'{\n  "name": "projects/p/messages/0:%d"\n}\n' % stream
            self.h2.send_headers(stream, [(":status", "200"), ("content-type", "application/json; charset=UTF-8")])
            self.h2.send_data(stream, name[:9], pad_length=5)
            self.h2.send_data(stream, name[9:], end_stream=True)
        if self.answered == LAST:
            # Those that are under way end, and the next go elsewhere.
            self.h2.close_connection()
            self.flush()
            self.transport.close()


def certificate(folder):
    """For localhost, and its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256()))
    (folder / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


def provide(folder, settings):
    """A provider on a thread of its own: its port, and what it sees."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    context.set_alpn_protocols(["h2"])
    seen = {"connections": 0, "violations": [], "tokens": []}
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: Provider(settings, seen), "127.0.0.1", 0, ssl=context))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return server.sockets[0].getsockname()[1], seen


def main(binary, keys, what, settings):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        shutil.copytree(keys, folder / "keys", ignore=shutil.ignore_patterns("*.sqlite*", "log"))
        certificate(folder)
        # The access tokens come from the simulator.
        with open(folder / "ca.pem", "ab") as authorities:
            authorities.write((Path(keys) / "ca.pem").read_bytes())
        port, seen = provide(folder, settings)
        options = ["--keys.directory", folder / "keys", "--database.url", f"sqlite:{folder}/service.sqlite"]
        with open(folder / "log", "wb") as log:
            service = subprocess.Popen(
                [binary, "serve", *options, "--http.port", "0", "--admin.port", "0", "--log.format", "json",
                 "--providers.ca_file", folder / "ca.pem", "--apns.endpoint", f"https://localhost:{port}",
                 "--fcm.endpoint", f"https://localhost:{port}"], stderr=log)
        try:
            play(binary, options, folder, what, seen)
        finally:
            service.terminate()
            service.wait()


def play(binary, options, folder, what, seen):
    deadline = time.monotonic() + 60
    while not (listening := [entry for entry in logged(folder) if entry.get("listener") == "public"]):
        check("the service starts", time.monotonic() < deadline) if time.monotonic() >= deadline else time.sleep(0.1)
    added = json.loads(subprocess.run(
        [binary, "server", "add", "--hostname", "strict.example.org", "--json", *options], check=True, capture_output=True).stdout)
    server = Server(f"http://127.0.0.1:{listening[0]['port']}", added["org_id"], added["org_key"])
    server.upload_realm()
    keys = folder / "keys"
    bouncer_key = next(
        key["public_key"] for key in map(json.loads, map(Path.read_text, (keys / "bouncer").glob("*.json"))) if key["state"] == "active")
    topic = json.loads((keys / "apns/simulator.json").read_text())["topics"][0]
    phones = [Phone(kind, bouncer_key, topic) for kind in ("apns", "fcm") for _ in range(10)]
    for phone in phones:
        check_quietly(server.register(phone) is None, "a registration is refused")
    for _ in range(10):
        server.notify([phone.item() for phone in phones])
    deadline = time.monotonic() + 60
    while len(seen["tokens"]) < 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    check(f"{what}: python-h2 takes every byte", seen["violations"] == [], seen["violations"])
    times = {phone.token: seen["tokens"].count(phone.token) for phone in phones}
    check(f"{what}: all arrive, each once", set(times.values()) == {10}, (len(seen["tokens"]), times))
    check(f"{what}: connections that said goodbye are followed by others", seen["connections"] >= 5, seen["connections"])


def logged(folder):
    for line in (folder / "log").read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            pass


def check_quietly(ok, what):
    if not ok:
        raise Mismatch(what)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3], "a generous provider", GENEROUS)
        main(*sys.argv[1:3], "a mean provider", MEAN)
    except (Mismatch, Refused, RetryLater) as error:
        sys.exit(f"FAIL {error}")
