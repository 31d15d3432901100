"""Keys, signatures and texts of Nextcloud's protocol, made with Python's cryptography and PHP's habits."""

import hashlib
import json
import re
import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils

from .phones import decode, encode

OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
PADDINGS = {"OAEP": OAEP, "PKCS1": padding.PKCS1v15()}
AGENTS = {
    "talk_android": "Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0",
    "talk_ios": "Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0 (Strict VoIP)",
    "files_android": "Mozilla/5.0 (Android) Nextcloud-android/3.30.0",
    "files_ios": "Mozilla/5.0 (iOS) Nextcloud-iOS/6.0.0  (Strict VoIP)",
}


KEYS = {}


def key(name, bits=2048):
    """The private key of that name: making one takes long, so cases share them. What is stored goes by identifiers."""
    if (name, bits) not in KEYS:
        KEYS[name, bits] = rsa.generate_private_key(public_exponent=3 if name == "exponent 3" else 65537, key_size=bits)
    return KEYS[name, bits]


def pem(public):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return public.public_bytes(serialization.Encoding.PEM, form).decode()


def sign(private, data):
    return encode(private.sign(data, padding.PKCS1v15(), hashes.SHA512()))


def verifies(public_pem, signature, data, hash=hashes.SHA512()):
    public = serialization.load_pem_public_key(public_pem.encode())
    try:
        public.verify(decode(signature), data, padding.PKCS1v15(), hash)
        return True
    except InvalidSignature:
        return False


def verifies_digest(public_pem, signature, digest):
    """As a proxy has to, which knows no more than the digest."""
    return verifies(public_pem, signature, digest, utils.Prehashed(hashes.SHA512()))


def encrypt(text, private, kind="OAEP"):
    return private.public_key().encrypt(text.encode(), PADDINGS[kind])


def php(value):
    """json_encode of PHP."""
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/")


def sha512_hex(text):
    return hashlib.sha512(text.encode()).hexdigest()


def token(app, two=None):
    """A push token as Apple or Google would give it to the app."""
    if "ios" not in app:
        return f"{secrets.token_hex(11)}:APA91b{secrets.token_urlsafe(60)}"
    # With letters, so that it has two spellings.
    tokens = ["AB" + secrets.token_hex(31).upper() for _ in range(2)]
    return " ".join(tokens if (app == "talk_ios" if two is None else two) else tokens[:1])


def app_of(name):
    """`talk_ios2` is a phone with `talk_ios`."""
    return re.sub("[0-9]+$", "", name)
