"""Base64, and subscriptions of Web Push."""

import base64
import json
import secrets

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


class Subscription:
    """One at the simulator's push service, with the keys that open its messages."""

    def __init__(self, endpoint):
        self.endpoint, self.id = endpoint, endpoint.rpartition("/")[2]
        self.key, self.auth = ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)

    @property
    def token(self):
        point = self.key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        fields = {"endpoint": self.endpoint, "p256dh": encode_url(point), "auth": encode_url(self.auth)}
        return "webpush:" + encode_url(json.dumps(fields).encode())
