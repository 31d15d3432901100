"""The parts of an app that shares no code with us: what it calls, the phones it runs on, the events it follows."""

import base64
import hashlib
import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request

import nacl.public
import nacl.secret

TOPIC = "org.example.chat"
PATIENCE = 60


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
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                code, answer = response.status, json.load(response)
        except urllib.error.HTTPError as error:
            code, answer = error.code, json.loads(error.read())
        if code != status:
            raise Mismatch(f"{method} {path.split('?')[0]} answered {code}, not {status}: {answer}")
        return answer


class Phone:
    """A phone with an app of its own making: the keys it has made, and its token at Apple's or Google's."""

    def __init__(self, kind, chat, bouncer_key):
        self.kind = kind
        self.chat = chat
        self.bouncer_key = bouncer_key
        self.keys = {}
        self.new_key()
        self.new_token()
        self.device = chat("POST", "/register_client_device")["device_id"]

    def new_key(self):
        self.key_id = secrets.randbits(32)
        self.keys[self.key_id] = secrets.token_bytes(32)

    def new_token(self):
        # Google's have characters that forms have to escape.
        self.token = secrets.token_hex(32) if self.kind == "apns" else f"{secrets.token_hex(11)}:APA91b{secrets.token_hex(60)}"

    @property
    def token_id(self):
        return encode(hashlib.sha256(self.token.encode()).digest()[:8])

    def key_fields(self):
        return {"push_key_id": self.key_id, "push_key": encode(b"\x31" + self.keys[self.key_id])}

    def token_fields(self):
        registration = {"token": self.token, "token_kind": self.kind, "timestamp": int(time.time())}
        if self.kind == "apns":
            registration["ios_app_id"] = TOPIC
        box = nacl.public.SealedBox(nacl.public.PublicKey(decode(self.bouncer_key)))
        return {
            "token_kind": self.kind, "token_id": self.token_id, "bouncer_public_key": self.bouncer_key,
            "encrypted_push_registration": encode(box.encrypt(json.dumps(registration).encode())),
        }

    def register(self, *groups):
        fields = {name: value for group in groups for name, value in group.items()}
        self.chat("POST", "/mobile_push/register", form={"device_id": self.device, **fields})

    def open(self, delivery):
        """The plaintext and the nonce of what arrived."""
        payload = delivery["payload"] if self.kind == "apns" else delivery["payload"]["message"]["data"]
        sealed = decode(payload["encrypted_data"])
        key_id = payload["push_key_id"]
        if self.kind == "fcm" and not isinstance(key_id, str):
            raise Mismatch(f"FCM takes data that are strings, not {key_id!r}")
        return json.loads(nacl.secret.SecretBox(self.keys[int(key_id)]).decrypt(sealed)), sealed[:24]


class Events:
    """A queue of a user's events."""

    def __init__(self, chat):
        self.chat = chat
        queue = chat("POST", "/register", form={"event_types": json.dumps(["device"])})
        self.id, self.last, self.devices = queue["queue_id"], queue["last_event_id"], queue["devices"]

    def until(self, device, wanted):
        """Follows a device until its state has what is wanted; what it was told on the way."""
        told = []
        state = self.devices[str(device)]
        deadline = time.monotonic() + PATIENCE
        while any(state[name] != value for name, value in wanted.items()):
            if time.monotonic() > deadline:
                raise Mismatch(f"device {device} never came to {wanted}: {state}")
            query = urllib.parse.urlencode({"queue_id": self.id, "last_event_id": self.last})
            for event in self.chat("GET", f"/events?{query}")["events"]:
                self.last = max(self.last, event["id"])
                if event["type"] != "device" or event["device_id"] != device:
                    continue
                changes = {name: value for name, value in event.items() if name not in ("id", "type", "op", "device_id")}
                if event["op"] != "update" or not changes.keys() <= state.keys():
                    raise Mismatch(f"an event of no known shape: {event}")
                state.update(changes)
                told.append(changes)
        return told
