"""What Python's cryptography signs and encrypts for Nextcloud passes here, and what is made here passes there.

Given the URL of a running proxy as well, it is a server and four apps at that proxy.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils

OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
PADDINGS = {"OAEP": OAEP, "PKCS1": padding.PKCS1v15()}
TALK_ANDROID = "Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0"
TALK_IOS = "Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0 (Strict VoIP)"
FILES_IOS = "Mozilla/5.0 (iOS) Nextcloud-iOS/6.0.0  (Strict VoIP)"
FILES_ANDROID = "Mozilla/5.0 (Android) Nextcloud-android/3.30.0"


def encode(data):
    return base64.b64encode(data).decode()


def decode(text):
    return base64.b64decode(text, validate=True)


def generate():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(key):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def private_pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


def sign(key, data):
    return encode(key.sign(data, padding.PKCS1v15(), hashes.SHA512()))


def make():
    user, device = generate(), generate()
    preimage = json.dumps(["jürgen@cloud.example.org/nextcloud", 42], separators=(",", ":")).replace("/", "\\/")
    yield {
        "kind": "nextcloud_registration", "user_public_key": public_pem(user), "preimage": preimage,
        "device_identifier": encode(hashlib.sha512(preimage.encode()).digest()),
        "signature": sign(user, preimage.encode()),
    }
    for text in ['{"delete-all":true}', "ü" * 107]:
        for name, kind in PADDINGS.items():
            subject = device.public_key().encrypt(text.encode(), kind)
            yield {
                "kind": "nextcloud_notification", "user_public_key": public_pem(user),
                "device_private_key": private_pem(device), "padding": name, "plaintext": text,
                "subject": encode(subject), "signature": sign(user, subject),
            }


def opens(vector):
    user = serialization.load_pem_public_key(vector["user_public_key"].encode())
    signature = decode(vector["signature"])
    try:
        if vector["kind"] == "nextcloud_registration":
            digest = decode(vector["device_identifier"])
            user.verify(signature, digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA512()))
            return hashlib.sha512(vector["preimage"].encode()).digest() == digest
        subject = decode(vector["subject"])
        user.verify(signature, subject, padding.PKCS1v15(), hashes.SHA512())
    except InvalidSignature:
        return False
    device = serialization.load_pem_private_key(vector["device_private_key"].encode(), None)
    return device.decrypt(subject, PADDINGS[vector["padding"]]).decode() == vector["plaintext"]


def check(binary, vectors):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(vectors, file)
        file.flush()
        return subprocess.run([binary, "vectors", "--check", file.name], capture_output=True).returncode == 0


def vectors(binary):
    theirs = list(make())
    assert check(binary, theirs), "what cryptography made does not pass here"
    print(f"ok  {len(theirs)} vectors of cryptography pass here")
    for name in ("signature", "plaintext", "preimage"):
        for vector in (vector for vector in theirs if name in vector):
            broken = dict(vector, **{name: theirs[0]["signature"] if name == "signature" else "x"})
            assert broken == vector or not check(binary, [broken]), "a wrong vector passed"
    print("ok  wrong vectors are noticed")
    made = subprocess.run([binary, "vectors", "--nextcloud"], capture_output=True, check=True).stdout
    ours = json.loads(made)
    assert ours and all(opens(vector) for vector in ours), "what is made here does not pass in cryptography"
    print(f"ok  {len(ours)} vectors of ours pass in cryptography")


class Phone:
    """An account in an app, and the server that the account is at."""

    def __init__(self, token, user, device):
        self.token, self.user, self.device = token, user, device
        preimage = f'["alice@cloud.example.org",{int.from_bytes(os.urandom(4), "big")}]'.encode()
        self.identifier = encode(hashlib.sha512(preimage).digest())
        self.owner = {
            "deviceIdentifier": self.identifier, "deviceIdentifierSignature": sign(user, preimage),
            "userPublicKey": public_pem(user),
        }

    def entry(self, kind="alert"):
        subject = self.device.public_key().encrypt(b'{"nid":1337,"app":"spreed"}', OAEP)
        return json.dumps({
            "deviceIdentifier": self.identifier,
            "pushTokenHash": hashlib.sha512(self.token.encode()).hexdigest(),
            "subject": encode(subject), "signature": sign(self.user, subject), "priority": "high", "type": kind,
        }, separators=(",", ":")).replace("/", "\\/")


def call(method, url, user_agent, form=None):
    body = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(url, body, {"User-Agent": user_agent}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def proxy(url):
    user, device = generate(), generate()
    hexadecimal = [os.urandom(32).hex().upper() for _ in range(3)]
    fcm = f"interop-{os.urandom(16).hex()}:x"
    apps = [
        (TALK_ANDROID, Phone(fcm, user, device), "query", "", {}),
        (TALK_IOS, Phone(" ".join(hexadecimal[:2]), user, device), "query", "", {}),
        (FILES_IOS, Phone(hexadecimal[2], user, device), "query", "?format=json", {}),
        ("Jakarta Commons-HttpClient/3.1", Phone(fcm, user, device), "body", "", {"http.useragent": FILES_ANDROID}),
    ]
    for user_agent, phone, _, query, more in apps:
        form = dict(phone.owner, pushToken=phone.token, **more)
        for _ in range(2):
            assert call("POST", f"{url}/devices{query}", user_agent, form) == (200, {})
        assert call("POST", f"{url}/devices", user_agent, dict(form, userPublicKey="x"))[0] == 400
    print("ok  four apps have registered")

    stranger = Phone(fcm, user, device)
    phones = [phone for _, phone, *_ in apps]
    entries = [phone.entry(kind) for phone in phones for kind in ("alert", "voip", "background")]
    form = {f"notifications[{index}]": entry for index, entry in enumerate(entries + [stranger.entry(), "x"])}
    status, answer = call("POST", f"{url}/notifications", "Nextcloud-Server-Crawler/33", form)
    assert status == 200 and answer["unknown"] == [stranger.identifier] and answer["failed"] >= 2, answer
    print(f"ok  a server has sent {len(entries)} notifications, {answer['failed'] - 2} of them in vain")

    for user_agent, phone, place, _, _ in apps:
        query = urllib.parse.urlencode(phone.owner)
        for expected in (200, 403):
            if place == "query":
                status, _ = call("DELETE", f"{url}/devices?{query}", user_agent)
            else:
                status, _ = call("DELETE", f"{url}/devices", user_agent, phone.owner)
            assert status == expected
    print("ok  four apps have unregistered")


if __name__ == "__main__":
    vectors(sys.argv[1])
    if len(sys.argv) > 2:
        proxy(sys.argv[2].rstrip("/"))
