"""The notifications that the service has promised, and what became of them."""

import collections
import json
import re
import secrets
import time

import nacl.secret

from conformance.phones import decode

MARK = re.compile(rb"soak[0-9a-f]{16}")
# For how many seconds an arrival is remembered, to notice that a notification arrives again.
MEMORY = 900


def new_mark():
    """A text by which a notification is recognised. It is also valid base64."""
    return "soak" + secrets.token_hex(8)


def mark_in(data):
    found = MARK.search(data)
    return found and found.group().decode()


class Ledger:
    """Promises, arrivals and deaths. `shaken(start, end)` says whether there was a fault then that may have lost an
    answer."""

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
        """Records that an answer calls a device dead."""
        if state.alive and device.state == state:
            self.wrongly_ended.append(device.kind)
        device.told = True

    def settle(self):
        """Drops the promises whose device has died or signed off before the arrival. Returns how many are still owed."""
        for key, (device, state, _) in list(self.waiting.items()):
            if not state.alive or device.state != state:
                del self.waiting[key]
                self.ended += 1
        return len(self.waiting)


State = collections.namedtuple("State", "alive generation")


class Device:
    """An app on a phone. Its state changes when it dies, comes back, signs off or signs in."""

    count = 0

    def __init__(self, kind, address):
        Device.count += 1
        self.number, self.kind, self.address = Device.count, kind, address
        self.state, self.told, self.busy = State(False, 0), False, False
        self.since = time.monotonic()

    def become(self, alive):
        self.state, self.since, self.told = State(alive, self.state.generation + 1), time.monotonic(), False

    def mark(self, delivery):
        return mark_in(json.dumps(delivery["payload"]).encode())


class Browser(Device):
    """A device that gets Web Push."""

    def __init__(self, subscription):
        super().__init__("webpush", subscription.id)
        self.subscription = subscription

    def mark(self, delivery):
        return mark_in(self.subscription.open(decode(delivery["payload"])))


class Sealed(Device):
    """A device of the built-in chat server. It opens notifications with one of the keys that it has made."""

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
        return key and mark_in(nacl.secret.SecretBox(key).decrypt(decode(data["encrypted_data"])))
