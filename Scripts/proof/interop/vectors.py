"""The service accepts what PyNaCl and Python's cryptography seal, sign and encrypt, and they accept what it makes."""

import hashlib
import json
import subprocess
import tempfile

import nacl.public
import nacl.secret
import nacl.utils
from cryptography.hazmat.primitives import serialization

from app import check
from conformance.nextcloud import PADDINGS, encrypt, key, pem, php, sign, verifies, verifies_digest
from conformance.phones import decode, encode, token_id

TEXTS = ["", "x", '{"type":"test","realm_name":"Zürich 🚀"}', "long " * 800]


def private_pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


def of_zulip():
    for text in TEXTS:
        private = nacl.public.PrivateKey.generate()
        yield {
            "kind": "sealed_box", "private_key": encode(bytes(private)), "plaintext": text,
            "sealed": encode(nacl.public.SealedBox(private.public_key).encrypt(text.encode())),
        }
        secret = nacl.utils.random(32)
        yield {
            "kind": "secret_box", "push_key": encode(b"\x31" + secret), "plaintext": text,
            "sealed": encode(nacl.secret.SecretBox(secret).encrypt(text.encode())),
        }
        yield {"kind": "token_id", "token": text, "token_id": token_id(text)}


def of_nextcloud():
    user, device = key("user"), key("device")
    preimage = php(["jürgen@cloud.example.org/nextcloud", 42])
    yield {
        "kind": "nextcloud_registration", "user_public_key": pem(user.public_key()), "preimage": preimage,
        "device_identifier": encode(hashlib.sha512(preimage.encode()).digest()),
        "signature": sign(user, preimage.encode()),
    }
    for text in ['{"delete-all":true}', "ü" * 107]:
        for name in PADDINGS:
            subject = encrypt(text, device, name)
            yield {
                "kind": "nextcloud_notification", "user_public_key": pem(user.public_key()),
                "device_private_key": private_pem(device), "padding": name, "plaintext": text,
                "subject": encode(subject), "signature": sign(user, subject),
            }


def opens(vector):
    kind = vector["kind"]
    if kind == "token_id":
        return token_id(vector["token"]) == vector["token_id"]
    if kind == "sealed_box":
        private = nacl.public.PrivateKey(decode(vector["private_key"]))
        return nacl.public.SealedBox(private).decrypt(decode(vector["sealed"])).decode() == vector["plaintext"]
    if kind == "secret_box":
        secret = decode(vector["push_key"])
        opened = nacl.secret.SecretBox(secret[1:]).decrypt(decode(vector["sealed"]))
        return secret[0] == 0x31 and opened.decode() == vector["plaintext"]
    if kind == "nextcloud_registration":
        digest = hashlib.sha512(vector["preimage"].encode()).digest()
        return encode(digest) == vector["device_identifier"] and verifies_digest(vector["user_public_key"], vector["signature"], digest)
    subject = decode(vector["subject"])
    device = serialization.load_pem_private_key(vector["device_private_key"].encode(), None)
    return verifies(vector["user_public_key"], vector["signature"], subject) and device.decrypt(subject, PADDINGS[vector["padding"]]).decode() == vector["plaintext"]


def passes(tool, vectors):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(vectors, file)
        file.flush()
        return subprocess.run([tool, "vectors", "--check", file.name], capture_output=True).returncode == 0


def main(tool):
    for library, vectors, options in ("PyNaCl", list(of_zulip()), []), ("cryptography", list(of_nextcloud()), ["--nextcloud"]):
        check(f"{len(vectors)} vectors of {library} pass here", passes(tool, vectors))
        for name in "sealed", "token_id", "signature", "plaintext", "preimage":
            for vector in (vector for vector in vectors if name in vector):
                other = next((one[name] for one in vectors if one.get(name, vector[name]) != vector[name]), "x")
                check(f"{vector['kind']} with another {name} is noticed", not passes(tool, [{**vector, name: other}]))
        made = subprocess.run([tool, "vectors", *options], capture_output=True, check=True).stdout
        ours = json.loads(made)
        check(f"{len(ours)} vectors of ours pass in {library}", ours and all(map(opens, ours)))
