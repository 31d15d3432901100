"""A push service for Web Push and the browsers that subscribe to it, which share no code with us: http.server, http_ece,
py_vapid."""

import base64
import dataclasses
import datetime
import http.server
import ipaddress
import json
import queue
import re
import secrets
import ssl
import tempfile
import threading
import time
from pathlib import Path

import http_ece
import py_vapid
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app import check

GIGABYTE = 1 << 30


def encode_url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point(key):
    """The public key, as browsers and servers write it."""
    return key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


class Subscription:
    """What a browser or a UnifiedPush distributor gives an app, and the private half of it."""

    def __init__(self, endpoint):
        self.endpoint, self.key, self.secret = endpoint, ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)

    @property
    def fields(self):
        return {"endpoint": self.endpoint, "p256dh": encode_url(point(self.key)), "auth": encode_url(self.secret)}

    @property
    def info(self):
        """As PushSubscription.toJSON() of the Push API has it."""
        fields = self.fields
        return {"endpoint": fields.pop("endpoint"), "keys": fields}

    @property
    def token(self):
        return "webpush:" + encode_url(json.dumps(self.fields).encode())

    def decrypt(self, body):
        return http_ece.decrypt(body, private_key=self.key, auth_secret=self.secret, version="aes128gcm")


@dataclasses.dataclass
class Request:
    path: str
    headers: dict
    body: bytes
    connection: int
    # Whether the answer was that it is taken.
    taken: bool
    at: float = dataclasses.field(default_factory=time.monotonic)

    def vapid(self):
        """The token of the Authorization header, its claims, and the key that it names, once py_vapid has verified it."""
        scheme, _, parameters = self.headers["authorization"].partition(" ")
        values = dict(re.findall(r"([a-z]+)=([A-Za-z0-9_.-]+)", parameters))
        check("VAPID: the scheme and its two parameters", scheme == "vapid" and sorted(values) == ["k", "t"], parameters)
        check("VAPID: py_vapid verifies the signature", py_vapid.Vapid02.verify(f"vapid t={values['t']},k={values['k']}"))
        header, claims, _ = values["t"].split(".")
        check("VAPID: ES256", json.loads(decode_url(header)) == {"typ": "JWT", "alg": "ES256"}, decode_url(header))
        return values["t"], json.loads(decode_url(claims)), values["k"]


# What a push service may answer: functions of the connection's handler.

def says(status, **headers):
    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    answer.takes = status in (200, 201, 202)
    return answer


def hangs(handler):
    handler.server.closing.wait()
    handler.close_connection = True


def never_ends(status):
    """Ten gigabytes, as far as they are read."""
    def answer(handler):
        handler.send_response(status)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        handler.close_connection = True
        owner = handler.server.owner
        owner.writing += 1
        try:
            while owner.written < 10 * GIGABYTE:
                handler.wfile.write(chunk)
                owner.written += 0x10000
        finally:
            owner.writing -= 1

    return answer


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        owner = self.server.owner
        answer = owner.first.pop(0) if owner.first else owner.answer
        owner.requests.put(Request(self.path, headers, body, self.client_address[1], getattr(answer, "takes", False)))
        answer(self)

    def do_GET(self):
        self.server.owner.requests.put(Request(self.path, {}, b"", self.client_address[1], True))
        says(200)(self)

    def log_message(self, *_):
        pass


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # All its bad connections are wanted.
    request_queue_size = 128

    def get_request(self):
        connection, address = super().get_request()
        self.owner.connections += 1
        if self.owner.context:
            connection = self.owner.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, *_):
        """A caller that goes away is no error here."""


class PushService:
    """One on a port of 127.0.0.1, under any of the names of its certificate, which is of the simulator's authority. It
    answers with what is in `first`, then always with `answer`."""

    def __init__(self, keys, answer=says(201), name="127.0.0.1"):
        self.answer, self.first, self.name = answer, [], name
        self.requests, self.connections, self.writing, self.written = queue.Queue(), 0, 0, 0
        self.context = keys and certificate(Path(keys), name)
        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.listener.owner, self.listener.closing = self, threading.Event()
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"{'https' if self.context else 'http'}://{self.name}:{self.listener.server_port}"

    def subscribe(self):
        return Subscription(f"{self.origin}/push/{secrets.token_urlsafe(16)}?up=1")

    def next(self, seconds=90):
        try:
            return self.requests.get(timeout=seconds)
        except queue.Empty:
            check(f"{self.origin} gets a message", False)

    def next_taken(self):
        while not (request := self.next()).taken:
            pass
        return request

    def idle(self):
        return self.requests.empty()

    def close(self):
        self.listener.closing.set()
        self.listener.shutdown()
        self.listener.server_close()


def certificate(keys, name):
    """TLS for a name, with a certificate that the simulator's authority has signed."""
    authority = x509.load_pem_x509_certificate((keys / "ca.pem").read_bytes())
    signer = serialization.load_pem_private_key((keys / "ca-key.pem").read_bytes(), None)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    try:
        subject = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    made = (
        x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(authority.subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([subject]), critical=True).sign(signer, hashes.SHA256()))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(private + made.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(file.name)
    context.set_alpn_protocols(["http/1.1"])
    return context
