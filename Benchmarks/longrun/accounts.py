"""What the service has promised, and what has become of it."""

import collections
import json
import re
import secrets
import time

import http_ece
import nacl.secret

from longrun.push import decode

MARK = re.compile(rb"soak[0-9a-f]{16}")
# Whoever has arrived is remembered for so long, to see it arrive again.
MEMORY = 900


def new_mark():
    """A text by which a notification is known again; it is base64, too."""
    return "soak" + secrets.token_hex(8)


class Ledger:
    """Promises, arrivals and deaths. `shaken(start, end)` says whether something went wrong then by which an answer may
    have been lost."""

    def __init__(self, shaken):
        self.shaken = shaken
        self.devices = {}
        self.waiting, self.arrived = {}, collections.OrderedDict()
        self.promised = self.ended = self.twice = self.after = 0
        self.unexplained, self.wrongly_ended = [], []

    def know(self, device, address):
        self.devices[address] = device

    def promise(self, mark, device, state):
        """`state` is the device's when the call was made."""
        self.promised += 1
        if (mark, device.number) not in self.arrived:
            self.waiting[mark, device.number] = (device, state, time.monotonic())

    def arrive(self, delivery):
        device = self.devices.get(delivery["token"])
        mark = device and device.mark(delivery)
        if not mark:
            return
        key, now = (mark, device.number), time.monotonic()
        self.waiting.pop(key, None)
        before = self.arrived.pop(key, None)
        if before is not None:
            self.twice += 1
            if not self.shaken(before, now):
                self.unexplained.append((device.kind, now - before))
        self.arrived[key] = now
        while self.arrived and next(iter(self.arrived.values())) < now - MEMORY:
            self.arrived.popitem(last=False)

    def told_dead(self, device, state):
        """An answer calls a device dead."""
        if state.alive and device.state == state:
            self.wrongly_ended.append(device.kind)
        device.told = True

    def settle(self):
        """Takes out what has an end: its device died before it came, or was signed off. What is left is owed."""
        for key, (device, state, _) in list(self.waiting.items()):
            if not state.alive or device.state != state:
                del self.waiting[key]
                self.ended += 1
        return len(self.waiting)


State = collections.namedtuple("State", "alive generation")


class Device:
    """An app on a phone. Its state changes whenever it dies, comes back, signs off or in."""

    count = 0

    def __init__(self, kind, address):
        Device.count += 1
        self.number, self.kind, self.address = Device.count, kind, address
        self.state, self.told, self.busy = State(False, 0), False, False
        self.since = time.monotonic()

    def become(self, alive):
        self.state, self.since, self.told = State(alive, self.state.generation + 1), time.monotonic(), False

    def mark(self, delivery):
        found = MARK.search(json.dumps(delivery["payload"]).encode())
        return found and found.group().decode()


class Browser(Device):
    """A device that gets Web Push."""

    def __init__(self, subscription):
        super().__init__("webpush", subscription.id)
        self.subscription = subscription

    def mark(self, delivery):
        subscription = self.subscription
        body = decode(delivery["payload"])
        plain = http_ece.decrypt(body, private_key=subscription.key, auth_secret=subscription.auth, version="aes128gcm")
        found = MARK.search(plain)
        return found and found.group().decode()


class Sealed(Device):
    """A device of the built-in chat server: it opens what arrives with one of the keys that it has made."""

    def __init__(self, kind):
        super().__init__(kind, None)
        self.keys, self.key_id, self.id, self.token = {}, 0, None, None

    def new_key(self):
        self.key_id = secrets.randbits(32)
        self.keys[self.key_id] = secrets.token_bytes(32)
        while len(self.keys) > 20:
            del self.keys[next(iter(self.keys))]

    def mark(self, delivery):
        payload = delivery["payload"]
        data = payload["message"]["data"] if "message" in payload else payload
        key = self.keys.get(int(data["push_key_id"]))
        found = key and MARK.search(nacl.secret.SecretBox(key).decrypt(decode(data["encrypted_data"])))
        return found and found.group().decode()
