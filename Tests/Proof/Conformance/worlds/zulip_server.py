"""The objects of a chat server's cases: users, their devices, and the phones that these are."""

import base64
import functools
import json
import re
import secrets
import time

import nacl.secret

from conformance import bouncer, phones
from conformance.cases import resolve
from conformance.limits import TIMEOUT
from conformance.matching import Matcher
from conformance.phones import basic, encode
from worlds import zulip_bouncer


class Phone(phones.Phone):
    """A phone that has signed in, with a key for notifications."""

    def __init__(self, sort, world, name):
        super().__init__(sort, world)
        self.name = name

    @functools.cached_property
    def device(self):
        return self.world.send({"request": "POST register_client_device"}).body["device_id"]

    @property
    def fields(self):
        return {"device_id": self.device, **self.key_fields, **self.token_fields}

    @property
    def state(self):
        return self.world.devices()[str(self.device)]

    def open(self, data):
        return json.loads(nacl.secret.SecretBox(self.secret).decrypt(base64.b64decode(data)))


class World(zulip_bouncer.World):
    def close(self, name):
        super().close(name)
        bouncer.shared().settle(name, tuple(text for phone in self.phones.values() for text in (phone.token, phone.token_id)))

    def __getattr__(self, name):
        if name in ("alice", "bob"):
            made = self.running.add_user(f"{name}-{secrets.token_hex(6)}")
            made.authorization = basic(made.email, made.key)
        elif re.fullmatch(r"(apns|fcm|fid)[0-9]*", name):
            made = self.phones[name] = Phone(name.rstrip("0123456789"), self, name)
        else:
            raise AttributeError(f"the world has no {name}")
        setattr(self, name, made)
        return made

    @property
    def shouted(self):
        return self.alice.email.upper()

    @property
    def first_device(self):
        return next(iter(self.devices()))

    def devices(self):
        return self.send({"request": "POST register", "form": {"event_types": '["device"]'}}).body["devices"]

    def until(self, enough, what):
        deadline = time.monotonic() + TIMEOUT
        while not (found := enough()) and time.monotonic() < deadline:
            # Each look counts: a user has so many calls a minute.
            time.sleep(0.4)
        assert found, what

    def step(self, words):
        match words:
            case [name, "is", "registered"]:
                return self.register(getattr(self, name))
            case [name, "is", "registered", "in", "clear"]:
                phone = getattr(self, name)
                path, form = ("apns_device_token", {"appid": phone.app_id}) if phone.kind == "apns" else ("android_gcm_reg_id", {})
                return self.send({"request": f"POST users/me/{path}", "form": {"token": phone.token, **form}})
        raise ValueError(f"no such step: {words}")

    def register(self, phone, waits=True):
        """Registers a phone's key and token, and waits until the token is active."""
        answer = self.send({"request": "POST mobile_push/register", "form": phone.fields})
        assert answer.status == 200, answer.body
        if waits:
            self.wait(phone)
        return answer

    def wait(self, phone):
        self.until(
            lambda: phone.state["push_token_id"] == phone.token_id and phone.state["pending_push_token_id"] is None,
            f"{phone.name} never became active")

    def send(self, request):
        """A path without a slash is below /api/v1/; `HOST notifications` is the host application's."""
        method, path = request["request"].split(" ", 1)
        if method == "HOST":
            return self.running.notify(self.alice, request["json"])
        return super().send({"as": "alice", **request, "request": f"{method} {path if path.startswith('/') else '/api/v1/' + path}"})

    def wanted(self, answer):
        if isinstance(answer, dict) and "sent" in answer:
            counts = {"devices": 0, "apple_successfully_sent_count": 0, "android_successfully_sent_count": 0, "deleted_devices": 0}
            return {"status": 200, "body": {"zulip": {**counts, **answer["sent"]}}}
        return super().wanted(answer)

    def make_changed_key(self, argument):
        """A push key with another first byte or length: `!changed_key [50, 32]`."""
        first, count = argument
        return encode(bytes([first]) + bytes(count))

    def make_filling(self, size):
        """A content with which the plaintext of the cases has so many bytes."""
        plain = {"type": "message", "message_id": 31, "content": "", "time": 1700000000, "realm_url": "https://chat.example.org",
                 "realm_name": "Example", "user_id": 10}
        return "x" * (size - len(json.dumps(plain, separators=(",", ":"))))

    def make_queue(self, members):
        return {"queue_id": Matcher("text"), "last_event_id": Matcher("integer"), "event_queue_longpoll_timeout_seconds": 90,
                "zulip_version": "12.1", "zulip_feature_level": 500, **members}

    def make_state(self, changes):
        """A device as clients see it."""
        return {"push_key_id": None, "push_token_id": None, "pending_push_token_id": None,
                "push_token_last_updated_timestamp": None, "push_registration_error_code": None, **(changes or {})}

    def make_only(self, pair):
        return {str(resolve(pair[0], self)): pair[1]}

    def shown(self, name, delivery):
        phone = self.phones[name]
        payload = delivery["payload"]
        data = payload if phone.kind == "apns" else payload["message"]["data"]
        if "encrypted_data" in data:
            assert str(data["push_key_id"]) == str(phone.push_key_id), "another key"
            rest = {"aps": payload["aps"]} if phone.kind == "apns" else {"android": payload["message"]["android"]}
            payload = {"opened": phone.open(data["encrypted_data"]), **rest}
        return {"to": name, "headers": delivery["headers"], "payload": payload}
