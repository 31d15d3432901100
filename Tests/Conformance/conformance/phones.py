"""Phones that share no code with the implementations: PyNaCl seals, http-ece opens."""

import base64
import functools
import hashlib
import json
import secrets
import time
import urllib.parse

import http_ece
import nacl.public
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from . import http


def encode(data):
    return base64.b64encode(data).decode()


def encode_url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token_id(token):
    return encode(hashlib.sha256(token.encode()).digest()[:8])


def seal(bouncer_key, content):
    """A sealed box in base64: an object as JSON, a text as it is."""
    if not isinstance(content, str):
        content = json.dumps(content)
    key = nacl.public.PublicKey(base64.b64decode(bouncer_key))
    return encode(nacl.public.SealedBox(key).encrypt(content.encode()))


def fcm_recipient(token):
    """The member of a message that names the token to FCM: an installation id is the only one of 22 characters."""
    return {"fid" if len(token) == 22 else "token": token}


def installation_id():
    return secrets.choice("cdef") + secrets.token_urlsafe(16)[:21]


class Subscription:
    """To a push service: an endpoint, and the keys with which the phone opens what comes."""

    def __init__(self, endpoint):
        self.endpoint, self.key, self.auth = endpoint, ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)

    def as_token(self, **changes):
        """The token that it is, with changed members; None leaves one out."""
        point = self.key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        members = {"endpoint": self.endpoint, "p256dh": encode_url(point), "auth": encode_url(self.auth), **changes}
        return "webpush:" + encode_url(json.dumps({name: value for name, value in members.items() if value is not None}).encode())

    @property
    def token(self):
        return self.as_token()


class Phone:
    """`apns`, `fcm`, `fid`, whose token is a Firebase installation id, or `web`: a phone without Google's services, whose
    token is a Web Push subscription."""

    def __init__(self, sort, world):
        self.is_web = sort == "web"
        self.kind = "apns" if sort == "apns" else "fcm"
        self.world = world
        self.app_id = world.running.app_id if sort == "apns" else None
        if sort == "apns":
            # With letters, so that it has two spellings.
            self.token = "ab" + secrets.token_hex(31)
        elif sort == "fcm":
            self.token = f"{secrets.token_hex(11)}:APA91b{secrets.token_hex(60)}"
        elif sort == "fid":
            self.token = installation_id()
        else:
            self.subscribe()

    def subscribe(self):
        answer = http.send(self.world.simulator.webpush, "POST", "/subscriptions",
                           body=json.dumps({"vapid": self.world.vapid}).encode(), ca_file=self.world.simulator.keys / "ca.pem")
        self.subscribed = Subscription(answer.body["endpoint"])
        self.token = self.subscribed.token

    def subscription(self, **changes):
        return self.subscribed.as_token(**changes)

    @property
    def address(self):
        """By what the simulator knows it."""
        return urllib.parse.urlsplit(self.subscribed.endpoint).path.split("/")[-1] if self.is_web else self.token

    @property
    def token_id(self):
        return token_id(self.token)

    @property
    def bouncer_key(self):
        return self.world.bouncer_key

    def registration(self, **changes):
        plain = {"token": self.token, "token_kind": self.kind, "timestamp": int(time.time())}
        if self.kind == "apns":
            plain["ios_app_id"] = self.app_id
        return {**plain, **changes}

    def sealed(self, **changes):
        return seal(self.bouncer_key, self.registration(**changes))

    @functools.cached_property
    def box(self):
        """One sealed registration, the same each time."""
        return self.sealed()

    @property
    def legacy_kind(self):
        return {"apns": 1, "fcm": 2}[self.kind]

    @property
    def upper_token(self):
        return self.token.upper()

    def read(self, delivery):
        """What the app gets of a delivery."""
        if not self.is_web:
            return delivery["payload"]
        return json.loads(http_ece.decrypt(
            base64.b64decode(delivery["payload"]), private_key=self.subscribed.key, auth_secret=self.subscribed.auth, version="aes128gcm"))
