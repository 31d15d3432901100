"""What the programs here share: calls of JSON services, phones that PyNaCl seals for, a chat server, and certificates."""

import base64
import datetime
import hashlib
import ipaddress
import json
import secrets
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

import nacl.public
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

TOPIC = "org.example.chat"
TIMEOUT = 60


class Mismatch(Exception):
    """Something is not as it should be."""


def check(what, ok, detail=""):
    if not ok:
        raise Mismatch(f"{what}: {detail}" if detail != "" else what)
    print(f"ok   {what}", flush=True)


def encode(data):
    return base64.b64encode(data).decode()


def decode(text):
    return base64.b64decode(text, validate=True)


def encode_url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def wait(what, condition):
    """The first value of `condition` that is true."""
    deadline = time.monotonic() + TIMEOUT
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Mismatch(what)
        time.sleep(0.05)
    return value


class Service:
    """An HTTP service that answers in JSON, as a caller with these credentials meets it."""

    def __init__(self, base, authorization=None):
        self.base = base
        self.authorization = authorization

    @classmethod
    def basic(cls, base, user, password):
        return cls(base, "Basic " + encode(f"{user}:{password}".encode()))

    def __call__(self, method, path, *, form=None, body=None, status=200):
        request = urllib.request.Request(self.base + path, method=method)
        if self.authorization:
            request.add_header("Authorization", self.authorization)
        if form is not None:
            request.data = urllib.parse.urlencode(form).encode()
        elif body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                code, answer = response.status, json.load(response)
        except urllib.error.HTTPError as error:
            code, answer = error.code, json.loads(error.read())
        if code != status:
            raise Mismatch(f"{method} {path.split('?')[0]} answered {code}, not {status}: {answer}")
        return answer


class Phone:
    """A phone, by its token at Apple's, Google's or a push service, and a key that it has made."""

    def __init__(self, kind, bouncer_key, token=None):
        self.kind, self.bouncer_key = kind, bouncer_key
        self.token = token or (secrets.token_hex(32) if kind == "apns" else f"{secrets.token_hex(11)}:APA91b{secrets.token_hex(60)}")
        self.key_id, self.key = secrets.randbits(32), secrets.token_bytes(32)

    @property
    def token_id(self):
        return encode(hashlib.sha256(self.token.encode()).digest()[:8])

    def key_fields(self):
        return {"push_key_id": self.key_id, "push_key": encode(b"\x31" + self.key)}

    def token_fields(self):
        registration = {"token": self.token, "token_kind": self.kind, "timestamp": int(time.time())}
        if self.kind == "apns":
            registration["ios_app_id"] = TOPIC
        box = nacl.public.SealedBox(nacl.public.PublicKey(decode(self.bouncer_key)))
        return {
            "token_kind": self.kind, "token_id": self.token_id, "bouncer_public_key": self.bouncer_key,
            "encrypted_push_registration": encode(box.encrypt(json.dumps(registration).encode())),
        }

    def item(self, encrypted=None):
        """A notification for it."""
        payload = {"push_key_id": self.key_id, "encrypted_data": encode(encrypted or secrets.token_bytes(300))}
        if self.kind == "fcm":
            return {"token_id": self.token_id, "fcm_priority": "high", "payload": payload}
        headers = {"apns_priority": 10, "apns_push_type": "alert"}
        aps = {"mutable-content": 1, "alert": {"title": "New notification"}, "sound": "default"}
        return {"token_id": self.token_id, "http_headers": headers, "payload": {**payload, "aps": aps}}


class Program:
    """The service on a folder of its own, and a chat server that its operator has let in."""

    def __init__(self, binary, keys, apns, fcm, *options, authorities=b""):
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        for part in ("apns", "fcm", "bouncer"):
            (folder / "Keys" / part).mkdir(parents=True)
            for file in Path(keys, part).iterdir():
                (folder / "Keys" / part / file.name).write_bytes(file.read_bytes())
                (folder / "Keys" / part / file.name).chmod(0o600)
        (folder / "ca.pem").write_bytes(Path(keys, "ca.pem").read_bytes() + authorities)
        place = ["--keys.directory", folder / "Keys", "--database.url", f"sqlite:{folder}/service.sqlite"]
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [binary, "serve", *place, "--http.port", "0", "--admin.port", "0", "--providers.ca_file", folder / "ca.pem",
                 "--apns.endpoint", apns, "--fcm.endpoint", fcm, "--log.format", "json", *options], stderr=log)
        self.url = wait("the service starts", self.public)
        added = json.loads(subprocess.run(
            [binary, "server", "add", "--hostname", "chat.example.org", "--json", *place], check=True, capture_output=True).stdout)
        self.bouncer_key = json.loads(next((folder / "Keys/bouncer").iterdir()).read_text())["public_key"]
        self.remotes = Service.basic(self.url + "/api/v1/remotes", added["org_id"], added["org_key"])
        self.realm = str(uuid.uuid4())
        self.remotes("POST", "/server/analytics", form={
            "realm_counts": "[]", "installation_counts": "[]", "version": '"12.0"', "merge_base": '"12.0"', "api_feature_level": "500",
            "realms": json.dumps([{
                "id": 2, "uuid": self.realm, "uuid_owner_secret": "zuliprealm_abc", "host": "chat.example.org",
                "url": "https://chat.example.org", "name": "Example", "org_type": 10, "date_created": 1600000000.5,
                "deactivated": False, "is_system_bot_realm": False, "authentication_methods": {"Email": True}}])})

    def public(self):
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{") and line.endswith("}"))
        return next((f"http://127.0.0.1:{line['port']}" for line in lines if line.get("listener") == "public"), None)

    def register(self, phone):
        self.remotes("POST", "/push/e2ee/register", form={"realm_uuid": self.realm, **phone.token_fields()})

    def notify(self, *items):
        return self.remotes("POST", "/push/e2ee/notify", body={"realm_uuid": self.realm, "push_requests": items})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(TIMEOUT)
        self.folder.cleanup()


def server_tls(protocol):
    """TLS for 127.0.0.1 and localhost that speaks this protocol, and the certificate, which is its own authority."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    name, day = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256()))
    certificate = made.public_bytes(serialization.Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        file.flush()
        context.load_cert_chain(file.name)
    context.set_alpn_protocols([protocol])
    return context, certificate
