"""HTTP services that are played for an implementation to call."""

import contextlib
import datetime
import http.server
import ipaddress
import json
import ssl
import tempfile
import threading
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from .limits import TIMEOUT


def certificate(authority, *names):
    """A certificate for these names and its key, in PEM; from the authority in this folder, or signed by itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    subject, day = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]), datetime.timedelta(days=1)
    issuer, signer = subject, key
    if authority:
        issuer = x509.load_pem_x509_certificate(Path(authority, "ca.pem").read_bytes()).subject
        signer = serialization.load_pem_private_key(Path(authority, "ca-key.pem").read_bytes(), None)
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName(names), critical=False).sign(signer, hashes.SHA256()))
    return made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def tls(authority, *protocols):
    """TLS for localhost and 127.0.0.1, with such a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(protocols)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate(authority, x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))))
        file.flush()
        context.load_cert_chain(file.name)
    return context


class Played:
    """A service on loopback, with TLS if there is a context. A subclass defines `answer(method, path, headers, body)`, which
    returns `(status, body)` or `(status, body, {header: value})`; the status 0 closes the connection without an answer."""

    def __init__(self, context=None):
        self.changed, self.settled = threading.Condition(), {}
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                if len(body) < length:
                    # The caller has ended between head and body, for example to be started again.
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, answer, *more = played.answer(self.command, self.path, headers, body)
                if status == 0:
                    self.close_connection = True
                    return
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **dict(*more)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request, address):
                with contextlib.suppress(OSError):
                    request.settimeout(TIMEOUT)
                    super().finish_request(context.wrap_socket(request, server_side=True) if context else request, address)

        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.port = self.listener.server_port
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def stop(self):
        self.listener.shutdown()
        self.listener.server_close()

    def until(self, find):
        """The first value of `find` that is true; the last one if none is in time."""
        deadline = time.monotonic() + TIMEOUT
        with self.changed:
            while not (found := find()) and self.changed.wait(max(deadline - time.monotonic(), 0)):
                pass
            return found

    def settle(self, what, key):
        """Declares that nothing more may be taken that `count(key)` counts: `late` reports what was."""
        with self.changed:
            self.settled[key] = (what, self.count(key))

    def late(self):
        with self.changed:
            for key, (what, before) in self.settled.items():
                if (now := self.count(key)) != before:
                    yield f"{what}: {type(self).__name__} had taken {before} calls when the case ended, {now} at last"


def next_of(answers):
    """The next one of a list; the last one is given again and again."""
    return answers.pop(0) if len(answers) > 1 else answers[0]
