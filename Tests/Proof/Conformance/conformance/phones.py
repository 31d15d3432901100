"""Phones that share no code with the implementations: PyNaCl seals, http-ece opens."""

import base64
import functools
import hashlib
import json
import secrets
import time
import uuid

import http_ece
import nacl.public
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def encode(data):
    return base64.b64encode(data).decode()


def decode(text):
    return base64.b64decode(text, validate=True)


def encode_url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def basic(user, password):
    return "Basic " + encode(f"{user}:{password}".encode())


def token_id(token):
    return encode(hashlib.sha256(token.encode()).digest()[:8])


def seal(bouncer_key, content):
    """A sealed box in base64: an object as JSON, a text as it is."""
    if not isinstance(content, str):
        content = json.dumps(content)
    key = nacl.public.PublicKey(base64.b64decode(bouncer_key))
    return encode(nacl.public.SealedBox(key).encrypt(content.encode()))


def new_token(kind):
    """A token as Apple or Google would give it to an app; Apple's has letters, so that it has two spellings."""
    return "ab" + secrets.token_hex(31) if kind == "apns" else f"{secrets.token_hex(11)}:APA91b{secrets.token_hex(60)}"


def registration(token, kind, app_id, **changes):
    """What a phone seals to the bouncer."""
    plain = {"token": token, "token_kind": kind, "timestamp": int(time.time())}
    return {**plain, **({"ios_app_id": app_id} if kind == "apns" else {}), **changes}


def item(token_id, kind, payload):
    """One of `push_requests`."""
    if kind == "fcm":
        return {"token_id": token_id, "fcm_priority": "high", "payload": payload}
    return {"token_id": token_id, "http_headers": {"apns_priority": 10, "apns_push_type": "alert"}, "payload": {
        **payload, "aps": {"mutable-content": 1, "sound": "default", "alert": {"title": "New notification"}}}}


def realm(**changes):
    """A realm as a chat server uploads it."""
    return {
        "id": 2, "uuid": str(uuid.uuid4()), "uuid_owner_secret": "zuliprealm_" + secrets.token_hex(16),
        "host": "chat.example.org", "url": "https://chat.example.org", "name": "Example", "org_type": 10,
        "date_created": 1600000000.5, "deactivated": False, "is_system_bot_realm": False,
        "authentication_methods": {"Email": True}, **changes}


def upload(*realms, **changes):
    """The form with which a chat server tells the bouncer of all its realms."""
    return {
        "realm_counts": "[]", "installation_counts": "[]", "realms": json.dumps(realms), "version": '"12.0"', "merge_base": '"12.0"',
        "api_feature_level": "500", **changes}


def fcm_recipient(token):
    """The member of a message that names the token to FCM: an installation id is the only one of 22 characters."""
    return {"fid" if len(token) == 22 else "token": token}


def installation_id():
    return secrets.choice("cdef") + secrets.token_urlsafe(16)[:21]


def point(key):
    """The public key, as browsers and servers write it."""
    return key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


class Subscription:
    """To a push service: an endpoint, and the keys with which the phone opens what comes."""

    def __init__(self, endpoint):
        self.endpoint, self.key, self.secret = endpoint, ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)

    @property
    def id(self):
        """The end of the endpoint, by which the simulator knows it."""
        return self.endpoint.rpartition("/")[2]

    @property
    def keys(self):
        return {"p256dh": encode_url(point(self.key)), "auth": encode_url(self.secret)}

    def as_token(self, **changes):
        """The token that it is, with changed members; None leaves one out."""
        members = {"endpoint": self.endpoint, **self.keys, **changes}
        return "webpush:" + encode_url(json.dumps({name: value for name, value in members.items() if value is not None}).encode())

    @property
    def token(self):
        return self.as_token()

    def open(self, body):
        """The plaintext of a message."""
        return http_ece.decrypt(body, private_key=self.key, auth_secret=self.secret, version="aes128gcm")


class Phone:
    """`apns`, `fcm`, `fid`, whose token is a Firebase installation id, or `web`: a phone without Google's services, whose
    token is a Web Push subscription. The app has a key for notifications."""

    def __init__(self, sort, world):
        self.push_key_id, self.secret = secrets.randbits(31), secrets.token_bytes(32)
        self.is_web = sort == "web"
        self.kind = "apns" if sort == "apns" else "fcm"
        self.world = world
        self.app_id = world.running.app_id if sort == "apns" else None
        if self.is_web:
            self.subscribe()
        else:
            self.token = installation_id() if sort == "fid" else new_token(sort)

    def subscribe(self):
        self.subscribed = self.world.simulator.subscribe(self.world.vapid)
        self.token = self.subscribed.token

    def subscription(self, **changes):
        return self.subscribed.as_token(**changes)

    @property
    def address(self):
        """By what the simulator knows it."""
        return self.subscribed.id if self.is_web else self.token

    @property
    def token_id(self):
        return token_id(self.token)

    @property
    def bouncer_key(self):
        return self.world.bouncer_key

    def registration(self, **changes):
        return registration(self.token, self.kind, self.app_id, **changes)

    def sealed(self, **changes):
        return seal(self.bouncer_key, self.registration(**changes))

    @functools.cached_property
    def box(self):
        """One sealed registration, the same each time."""
        return self.sealed()

    @property
    def push_key(self):
        return encode(b"\x31" + self.secret)

    @property
    def key_fields(self):
        return {"push_key_id": self.push_key_id, "push_key": self.push_key}

    @property
    def token_fields(self):
        return {"token_kind": self.kind, "token_id": self.token_id, "bouncer_public_key": self.bouncer_key,
                "encrypted_push_registration": self.box}

    @property
    def legacy_kind(self):
        return {"apns": 1, "fcm": 2}[self.kind]

    @property
    def upper_token(self):
        return self.token.upper()

    def read(self, delivery):
        """What the app gets of a delivery."""
        return json.loads(self.subscribed.open(decode(delivery["payload"]))) if self.is_web else delivery["payload"]
