"""A chat server's own host, where a bouncer looks for the secret of a challenge."""

import contextlib
import datetime
import http.server
import ssl
import tempfile
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PATH = "/api/v1/zulip-services/verify/"


def certificate(folder, authority):
    """A certificate of localhost and its key, in a file; from the authority of this folder, or signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    issuer, signer = name, key
    if authority:
        issuer = x509.load_pem_x509_certificate(Path(authority, "ca.pem").read_bytes()).subject
        signer = serialization.load_pem_private_key(Path(authority, "ca-key.pem").read_bytes(), None)
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key()).serial_number(
        x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
        now + datetime.timedelta(days=1)).add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False).sign(
        signer, hashes.SHA256())
    path = Path(folder, "localhost.pem")
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return path


class ChatHost:
    """`answer` is what it says: (status, body as text), or a function of the path; None: nothing, ever."""

    def __init__(self, port):
        self.hostname = f"localhost:{port}"
        self.answer = (404, "{}")
        self.asked = []


@contextlib.contextmanager
def chat_host(authority):
    """One that runs on loopback, trusted by those who trust the authority; None: by nobody."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            host.asked.append(self.path)
            answer = host.answer(self.path) if callable(host.answer) else host.answer
            if answer is None:
                over.wait(60)
                return
            status, body, *headers = answer
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def finish_request(self, request, address):
            with contextlib.suppress(OSError):
                request.settimeout(60)
                super().finish_request(context.wrap_socket(request, server_side=True), address)

        def handle_error(self, *_):
            pass

    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(folder, authority))
        server = Server(("127.0.0.1", 0), Handler)
        host = ChatHost(server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield host
        finally:
            over.set()
            server.shutdown()
            server.server_close()


