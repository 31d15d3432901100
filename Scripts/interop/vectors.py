"""What PyNaCl and Python's cryptography seal, sign and encrypt passes here, and what is made here passes there.

    vectors.py EXECUTABLE
"""

import hashlib
import json
import subprocess
import sys
import tempfile

import nacl.public
import nacl.secret
import nacl.utils
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils

from app import Mismatch, check, decode, encode

TEXTS = ["", "x", '{"type":"test","realm_name":"Zürich 🚀"}', "long " * 800]
OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
PADDINGS = {"OAEP": OAEP, "PKCS1": padding.PKCS1v15()}
TALK_ANDROID = "Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0"


def token_id(token):
    return encode(hashlib.sha256(token.encode()).digest()[:8])


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


def of_zulip():
    for text in TEXTS:
        private = nacl.public.PrivateKey.generate()
        yield {
            "kind": "sealed_box", "private_key": encode(bytes(private)), "plaintext": text,
            "sealed": encode(nacl.public.SealedBox(private.public_key).encrypt(text.encode())),
        }
        key = nacl.utils.random(32)
        yield {
            "kind": "secret_box", "push_key": encode(b"\x31" + key), "plaintext": text,
            "sealed": encode(nacl.secret.SecretBox(key).encrypt(text.encode())),
        }
        yield {"kind": "token_id", "token": text, "token_id": token_id(text)}


def of_nextcloud():
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
    kind = vector["kind"]
    if kind == "token_id":
        return token_id(vector["token"]) == vector["token_id"]
    if kind == "sealed_box":
        private = nacl.public.PrivateKey(decode(vector["private_key"]))
        return nacl.public.SealedBox(private).decrypt(decode(vector["sealed"])).decode() == vector["plaintext"]
    if kind == "secret_box":
        key = decode(vector["push_key"])
        opened = nacl.secret.SecretBox(key[1:]).decrypt(decode(vector["sealed"]))
        return key[0] == 0x31 and opened.decode() == vector["plaintext"]
    user = serialization.load_pem_public_key(vector["user_public_key"].encode())
    signature = decode(vector["signature"])
    try:
        if kind == "nextcloud_registration":
            digest = decode(vector["device_identifier"])
            user.verify(signature, digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA512()))
            return hashlib.sha512(vector["preimage"].encode()).digest() == digest
        subject = decode(vector["subject"])
        user.verify(signature, subject, padding.PKCS1v15(), hashes.SHA512())
    except InvalidSignature:
        return False
    device = serialization.load_pem_private_key(vector["device_private_key"].encode(), None)
    return device.decrypt(subject, PADDINGS[vector["padding"]]).decode() == vector["plaintext"]


def passes(binary, vectors):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(vectors, file)
        file.flush()
        return subprocess.run([binary, "vectors", "--check", file.name], capture_output=True).returncode == 0


def main(binary):
    for library, vectors, options in ("PyNaCl", list(of_zulip()), []), ("cryptography", list(of_nextcloud()), ["--nextcloud"]):
        check(f"{len(vectors)} vectors of {library} pass here", passes(binary, vectors))
        for name in "sealed", "token_id", "signature", "plaintext", "preimage":
            for vector in (vector for vector in vectors if name in vector):
                other = next((one[name] for one in vectors if one.get(name, vector[name]) != vector[name]), "x")
                check(f"{vector['kind']} with another {name} is noticed", not passes(binary, [{**vector, name: other}]))
        made = subprocess.run([binary, "vectors", *options], capture_output=True, check=True).stdout
        ours = json.loads(made)
        check(f"{len(ours)} vectors of ours pass in {library}", ours and all(map(opens, ours)))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Mismatch as error:
        sys.exit(f"FAIL {error}")
