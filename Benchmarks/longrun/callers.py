"""The callers: chat servers with phones of all kinds, Nextcloud servers, host applications, operators."""

import asyncio
import hashlib
import json
import random
import secrets
import ssl
import time
import uuid

import aiohttp

from conformance.nextcloud import AGENTS, key, pem, php, sha512_hex, sign
from conformance.phones import Subscription, basic, decode, encode, item, new_token, registration, seal, token_id
from longrun.accounts import Browser, Device, Sealed, new_mark
from service import BACKEND_TOKEN, REALM, TOPIC

REST = 20   # seconds for which a dead device stays dead at least


class World:
    """The service, the simulator and the books of the run, which all callers share."""

    def __init__(self, service, simulator, ledger, recorder, excused, seed):
        self.service, self.simulator, self.ledger, self.recorder, self.excused = service, simulator, ledger, recorder, excused
        self.random = random.Random(seed)
        self.url = f"http://127.0.0.1:{service.ports[0]}"
        self.admin = f"http://127.0.0.1:{service.admin_ports[0]}"

    async def __aenter__(self):
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=64), timeout=aiohttp.ClientTimeout(total=40), cookie_jar=aiohttp.DummyCookieJar())
        trust = ssl.create_default_context(cafile=self.simulator.keys / "ca.pem")
        self.control_session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust))
        vapid = await self.call("vapid", "GET", f"{self.url}/api/v1/zulip-services/webpush/vapid")
        self.vapid = vapid["vapid"]
        return self

    async def __aexit__(self, *_):
        await self.session.close()
        await self.control_session.close()

    async def call(self, what, method, url, expected=(200,), session=None, **options):
        """Makes a call. Returns the answer's document; None if its status is not expected."""
        start, status, document, detail = time.monotonic(), None, None, ""
        try:
            async with (session or self.session).request(method, url, **options) as answer:
                body = await answer.read()
                status = answer.status
                if status in expected and "json" in answer.content_type:
                    document = json.loads(body)
                detail = body[:200].decode(errors="replace")
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            detail = repr(error)
        now = time.monotonic()
        self.recorder.add(what, status, now - start, status in expected, self.excused(start, now), detail)
        return (document if document is not None else {}) if status in expected else None

    async def zulip(self, what, path, expected=(200,), **options):
        headers = {"Authorization": self.service.authorization}
        return await self.call(what, "POST", f"{self.url}/api/v1/remotes/{path}", expected, headers=headers, **options)

    async def control(self, method, path, body=None):
        async with self.control_session.request(method, f"{self.simulator.fcm}/_control/{path}", json=body) as answer:
            return await answer.json()

    async def subscription(self):
        async with self.control_session.post(f"{self.simulator.webpush}/subscriptions", json={"vapid": self.vapid}) as answer:
            return Subscription((await answer.json())["endpoint"])

    async def die(self, device):
        """Makes its provider call a device dead from now on."""
        device.become(False)
        status = 404 if device.kind == "fcm" else 410
        await self.control("PUT", f"tokens/{device.address}", {"status": status})

    async def live(self, device):
        await self.control("DELETE", f"tokens/{device.address}")


class Callers:
    """Devices of one kind of registration: they register, are notified, die, are called dead and come back."""

    def __init__(self, world, count):
        self.world, self.count, self.devices, self.random = world, count, [], world.random
        self.dying = False

    async def prepare(self):
        for number in range(self.count):
            device = await self.make(number)
            self.devices.append(device)
            self.world.ledger.know(device, device.address)
        await asyncio.gather(*(self.come(device) for device in self.devices))

    def some(self, count, alive=True):
        found = [device for device in self.random.sample(self.devices, min(len(self.devices), count * 4)) if device.state.alive or not alive]
        return found[:count]

    async def churn(self):
        await self.with_one(self.change)

    async def sign_off(self):
        await self.with_one(self.leave)

    async def with_one(self, act):
        """Acts on a device on which nothing else acts."""
        device = self.random.choice(self.devices)
        if device.busy:
            return
        device.busy = True
        try:
            await act(device)
        finally:
            device.busy = False

    async def change(self, device):
        """A living device dies or registers again; one that was called dead comes back."""
        if device.state.alive:
            # A tenth of the devices are dead in the end.
            if self.random.random() < 0.1:
                await self.world.die(device)
            else:
                await self.register(device)
        elif device.told and time.monotonic() - device.since > REST:
            await self.world.live(device)
            await self.come(device)

    async def leave(self, device):
        """An app signs off and comes back."""
        if device.state.alive:
            device.become(False)
            if await self.unregister(device) is None:
                device.told = True
            else:
                await self.come(device)

    async def come(self, device):
        if await self.register(device) is None:
            # It is tried again later.
            device.told = True
        else:
            device.become(True)

    async def make_with_token(self, number):
        """A device with Apple's, Google's or a push service's token, in turn."""
        kind = ("apns", "fcm", "webpush")[number % 3]
        if kind == "webpush":
            device = Browser(await self.world.subscription())
            device.token = device.subscription.token
        else:
            device = Device(kind, new_token(kind))
            device.token = device.address
        return device

    def book(self, sent, is_dead):
        """Records what an answer says of (device, state, mark): that the device is dead, or else a promise."""
        for device, state, mark in sent:
            if is_dead(device):
                self.world.ledger.told_dead(device, state)
            else:
                self.world.ledger.promise(mark, device, state)


class Encrypted(Callers):
    """Of Zulip's encrypted push: one third each by Apple, Google and Web Push."""

    async def make(self, number):
        device = await self.make_with_token(number)
        device.id = token_id(device.token)
        return device

    async def register(self, device):
        return await self.world.zulip("e2ee register", "push/e2ee/register", data={
            "realm_uuid": REALM, "token_id": device.id, "bouncer_public_key": self.world.service.key,
            "encrypted_push_registration": sealed(self.world, device)})

    async def notify(self):
        # Dead devices are notified as well, since the server does not know that they are dead.
        devices = self.some(self.random.randint(1, 3), alive=False)
        sent = [(device, device.state, new_mark()) for device in devices]
        items = [item(device.id, zulip_kind(device), {"push_key_id": 7, "encrypted_data": mark}) for device, _, mark in sent]
        answer = await self.world.zulip("e2ee notify", "push/e2ee/notify", json={"realm_uuid": REALM, "push_requests": items})
        if answer is not None:
            self.book(sent, lambda device: device.id in answer["delete_token_ids"])


def zulip_kind(device):
    return "apns" if device.kind == "apns" else "fcm"


def sealed(world, device):
    return seal(world.service.key, registration(device.token, zulip_kind(device), TOPIC))


class Legacy(Callers):
    """Of apps without encryption: each user has an iPhone, an Android phone and a phone without Google."""

    def __init__(self, world, count):
        super().__init__(world, count)
        self.users = [str(uuid.uuid4()) for _ in range((count + 2) // 3)]

    async def make(self, number):
        device = await self.make_with_token(number)
        device.user = self.users[number // 3]
        return device

    def fields(self, device):
        return {"user_uuid": device.user, "token": device.token, "token_kind": 1 if device.kind == "apns" else 2}

    async def register(self, device):
        fields = self.fields(device) | {"realm_uuid": REALM}
        if device.kind == "apns":
            fields["ios_app_id"] = TOPIC
        return await self.world.zulip("legacy register", "push/register", data=fields)

    async def unregister(self, device):
        # 400: a provider called it dead meanwhile, or the answer to the first try was lost.
        return await self.world.zulip("legacy unregister", "push/unregister", (200, 400), data=self.fields(device))

    async def notify(self):
        user = self.random.choice(self.users)
        mark = new_mark()
        sent = [(device, device.state, mark) for device in self.devices if device.user == user]
        tokens = lambda kind: [device.token for device, _, _ in sent if zulip_kind(device) == kind]
        answer = await self.world.zulip("legacy notify", "push/notify", json={
            "user_uuid": user, "realm_uuid": REALM,
            "gcm_payload": {"event": "message", "content": mark, "zulip_message_id": 1},
            "apns_payload": {"alert": {"title": "Iago", "body": mark}, "sound": "default", "badge": 0, "custom": {"zulip": {}}},
            "gcm_options": {"priority": "high"}, "android_devices": tokens("fcm"), "apple_devices": tokens("apns")})
        if answer is not None:
            deleted = answer["deleted_devices"]
            self.book(sent, lambda device: device.token in deleted["android_devices"] + deleted["apple_devices"])


class Nextcloud(Callers):
    """Talk on Android at the push proxy, and the servers that write to it."""

    async def make(self, number):
        device = Device("fcm", new_token("fcm"))
        device.token, device.key = device.address, key(f"user {number % 6}")
        preimage = php([f"a{number}@cloud.example.org", number]).encode()
        device.id, device.signature = encode(hashlib.sha512(preimage).digest()), sign(device.key, preimage)
        device.public, device.hash = pem(device.key.public_key()), sha512_hex(device.token)
        return device

    def fields(self, device):
        return {
            "pushToken": device.token, "deviceIdentifier": device.id, "deviceIdentifierSignature": device.signature,
            "userPublicKey": device.public}

    async def register(self, device):
        return await self.world.call(
            "nextcloud register", "POST", f"{self.world.url}/devices", data=self.fields(device),
            headers={"User-Agent": AGENTS["talk_android"]})

    async def unregister(self, device):
        # 403: it is gone already.
        return await self.world.call(
            "nextcloud unregister", "DELETE", f"{self.world.url}/devices", (200, 403), data=self.fields(device))

    async def notify(self):
        sent, form = [], {}
        for number, device in enumerate(self.some(self.random.randint(1, 2), alive=False)):
            mark = new_mark()
            subject = decode(mark) + secrets.token_bytes(241)
            sent.append((device, device.state, mark))
            form[f"notifications[{number}]"] = json.dumps({
                "deviceIdentifier": device.id, "pushTokenHash": device.hash, "subject": encode(subject),
                "signature": sign(device.key, subject), "priority": "high", "type": "alert"})
        answer = await self.world.call("nextcloud notify", "POST", f"{self.world.url}/notifications", data=form)
        if answer is not None:
            # The answer does not say which ones failed; no living one may.
            self.book([one for one in sent if one[0].id in answer["unknown"] or one[1].alive or not answer["failed"]],
                      lambda device: device.id in answer["unknown"])


class BuiltIn(Callers):
    """The built-in chat server: a host application notifies users, whose phones rotate keys and tokens, sign off and in."""

    TOKENS = 4

    async def prepare(self):
        world = self.world
        self.realm = str(uuid.uuid4())
        self.backend = f"{world.url}/backend/v1/realms/{self.realm}"
        self.bearer = {"Authorization": f"Bearer {BACKEND_TOKEN}"}
        put = lambda url, body: world.call("backend", "PUT", url, (200, 201), headers=self.bearer, json=body)
        await put(self.backend, {"name": "Soak", "url": "https://soak.example.org"})
        self.users = {}
        for user in range(10, 10 + (self.count + 1) // 2):
            account = await put(f"{self.backend}/users/{user}", {"email": f"user{user}@example.org"})
            self.users[user] = basic(account["email"], account["api_key"])
        await super().prepare()

    async def make(self, number):
        device = Sealed("apns" if number % 2 else "fcm")
        device.user = 10 + number // 2
        device.tokens = [new_token(device.kind) for _ in range(self.TOKENS)]
        for token in device.tokens:
            self.world.ledger.know(device, token)
        return device

    async def chat(self, device, what, method, path, expected=(200,), **fields):
        fields = {name: str(value) for name, value in fields.items()}
        options = {"params": fields} if method in ("GET", "DELETE") else {"data": fields}
        return await self.world.call(
            what, method, f"{self.world.url}/api/v1/{path}", expected, headers={"Authorization": self.users[device.user]}, **options)

    async def come(self, device):
        answer = await self.chat(device, "register device", "POST", "register_client_device")
        if answer is None:
            return
        device.id = answer["device_id"]
        if await self.rotate(device, key=True, token=True):
            device.become(True)

    async def rotate(self, device, key, token):
        """Replaces the key, the token or both. Returns whether the device is active with them. A notification that is under
        way meanwhile may be for the old or the new ones."""
        fields = {}
        if key:
            device.new_key()
            fields |= {"push_key_id": device.key_id, "push_key": encode(b"1" + device.keys[device.key_id])}
        if token:
            device.token = self.random.choice([one for one in device.tokens if one != device.token])
            fields |= {
                "token_kind": device.kind, "token_id": token_id(device.token),
                "bouncer_public_key": self.world.service.key, "encrypted_push_registration": sealed(self.world, device)}
        if await self.chat(device, "register push", "POST", "mobile_push/register", device_id=device.id, **fields) is None:
            return False
        return not token or await self.is_active(device, fields["token_id"])

    async def is_active(self, device, token_id):
        for pause in (0.05, 0.2, 0.5, 1, 2, 5, 10, 20, 40):
            await asyncio.sleep(pause)
            queue = await self.chat(device, "event queue", "POST", "register", event_types='["device"]')
            if queue is None:
                continue
            await self.chat(
                device, "events", "GET", "events", queue_id=queue["queue_id"], last_event_id=queue["last_event_id"], dont_block="true")
            await self.chat(device, "event queue", "DELETE", "events", queue_id=queue["queue_id"])
            state = queue["devices"].get(str(device.id), {})
            if state.get("push_token_id") == token_id and state.get("pending_push_token_id") is None:
                return True
        return False

    async def change(self, device):
        what, was_alive = self.random.random(), device.state.alive
        device.become(False)
        if was_alive and what >= 0.2:
            if await self.rotate(device, key=what < 0.7, token=what > 0.4):
                device.become(True)
        elif device.id is None or await self.chat(
                device, "remove device", "POST", "remove_client_device", (200, 400), device_id=device.id) is not None:
            device.id = None
            await self.come(device)

    async def notify(self):
        user = self.random.choice(list(self.users))
        devices = [(device, device.state) for device in self.devices if device.user == user]
        mark = new_mark()
        answer = await self.world.call(
            "built-in notify", "POST", f"{self.backend}/users/{user}/notifications", headers=self.bearer,
            json={"zulip": {"type": "message", "recipient_type": "direct", "content": mark, "sender_full_name": "Iago", "message_id": 1}})
        if answer is None:
            return
        for device, state in devices:
            if state.alive and device.state == state:
                self.world.ledger.promise(mark, device, state)


class Operator:
    """An operator who looks at the pages."""

    PATHS = ("/metrics", "/readyz", "/healthz", "/admin", "/admin/servers", "/admin/find?q=chat.example.org")

    def __init__(self, world):
        self.world = world

    async def look(self):
        path = self.world.random.choice(self.PATHS)
        # "Not ready" is an expected answer.
        await self.world.call("operator", "GET", self.world.admin + path, (200, 503) if path == "/readyz" else (200,))
