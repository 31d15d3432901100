"""A chat server's own host, where a bouncer looks for the secret of a challenge."""

import contextlib
import datetime
import ssl
import tempfile
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .played import Played

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


class ChatHost(Played):
    """`told` is what it answers: a status, a body as text and perhaps a Location; None: nothing, ever."""

    def __init__(self, context):
        super().__init__(context)
        self.hostname, self.told, self.asked, self.over = f"localhost:{self.port}", (404, "{}"), [], threading.Event()

    def answer(self, method, path, headers, body):
        self.asked.append(path)
        if self.told is None:
            self.over.wait(60)
            return 0, ""
        return self.told


@contextlib.contextmanager
def chat_host(authority):
    """A host on loopback, trusted by those who trust the authority; None: by nobody."""
    with tempfile.TemporaryDirectory() as folder:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(folder, authority))
        host = ChatHost(context)
        try:
            yield host
        finally:
            host.over.set()
            host.stop()
