"""Who calls: chat servers with phones of all kinds, Nextcloud servers, host applications, operators."""

import asyncio
import base64
import hashlib
import json
import random
import secrets
import ssl
import time
import uuid

import aiohttp
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from longrun.accounts import Browser, Device, Sealed, new_mark
from longrun.push import Subscription, encode
from service import BACKEND_TOKEN, REALM, TOPIC, item

REST = 20   # seconds for which the dead stay dead at least


class World:
    """The service, the simulator and all that is known of both, as those who call share it."""

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
        """The answer's document, or None where it is not one of the expected."""
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
        """From now on its provider calls it dead."""
        device.become(False)
        status = 404 if device.kind == "fcm" else 410
        await self.control("PUT", f"tokens/{device.address}", {"status": status})

    async def live(self, device):
        await self.control("DELETE", f"tokens/{device.address}")

    def token(self, kind):
        return secrets.token_hex(32) if kind == "apns" else f"{secrets.token_hex(11)}:APA91b{secrets.token_hex(60)}"


class Callers:
    """Devices of one kind of registration: they come, are notified, die, are told dead and come back."""

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
        """One dies, or one that was told dead comes back; or one that lives registers again."""
        device = self.random.choice(self.devices)
        if device.busy:
            return
        device.busy = True
        try:
            if device.state.alive:
                # One in ten is dead in the end.
                if self.random.random() < 0.1:
                    await self.world.die(device)
                else:
                    await self.register(device)
            elif device.told and time.monotonic() - device.since > REST:
                await self.world.live(device)
                await self.come(device)
        finally:
            device.busy = False

    async def come(self, device):
        if await self.register(device) is None:
            # Tried again later.
            device.told = True
        else:
            device.become(True)


class Encrypted(Callers):
    """Of Zulip's encrypted push: one third each by Apple, Google and Web Push."""

    async def make(self, number):
        kind = ("apns", "fcm", "webpush")[number % 3]
        if kind == "webpush":
            subscription = await self.world.subscription()
            device = Browser(subscription)
            device.token = subscription.token
        else:
            token = self.world.token(kind)
            device = Device(kind, token)
            device.token = token
        device.id = encode(hashlib.sha256(device.token.encode()).digest()[:8])
        return device

    async def register(self, device):
        return await self.world.zulip("e2ee register", "push/e2ee/register", data={
            "realm_uuid": REALM, "token_id": device.id, "bouncer_public_key": self.world.service.key,
            "encrypted_push_registration": self.seal(device)})

    def seal(self, device):
        plain = {"token": device.token, "token_kind": "apns" if device.kind == "apns" else "fcm", "timestamp": int(time.time())}
        if device.kind == "apns":
            plain["ios_app_id"] = TOPIC
        return encode(self.world.service.box.encrypt(json.dumps(plain).encode()))

    async def notify(self):
        # The dead are written to as well, for nobody knows.
        devices = self.some(self.random.randint(1, 3), alive=False)
        sent = [(device, device.state, new_mark()) for device in devices]
        items = [item(device.id, device.kind != "apns", {"push_key_id": 7, "encrypted_data": mark}) for device, _, mark in sent]
        answer = await self.world.zulip("e2ee notify", "push/e2ee/notify", json={"realm_uuid": REALM, "push_requests": items})
        if answer is None:
            return
        dead = set(answer["delete_token_ids"])
        for device, state, mark in sent:
            if device.id in dead:
                self.world.ledger.told_dead(device, state)
            else:
                self.world.ledger.promise(mark, device, state)


class Legacy(Callers):
    """Of apps without encryption: users with an iPhone, an Android phone and one without Google each."""

    def __init__(self, world, count):
        super().__init__(world, count)
        self.users = [str(uuid.uuid4()) for _ in range((count + 2) // 3)]

    async def make(self, number):
        kind = ("apns", "fcm", "webpush")[number % 3]
        if kind == "webpush":
            subscription = await self.world.subscription()
            device = Browser(subscription)
            device.token = subscription.token
        else:
            token = self.world.token(kind)
            device = Device(kind, token)
            device.token = token
        device.user = self.users[number // 3]
        return device

    def fields(self, device):
        return {"user_uuid": device.user, "token": device.token, "token_kind": 1 if device.kind == "apns" else 2}

    async def register(self, device):
        fields = self.fields(device) | {"realm_uuid": REALM}
        if device.kind == "apns":
            fields["ios_app_id"] = TOPIC
        return await self.world.zulip("legacy register", "push/register", data=fields)

    async def sign_off(self):
        """An app signs off and comes back."""
        device = self.random.choice(self.devices)
        if device.busy or not device.state.alive:
            return
        device.busy = True
        try:
            device.become(False)
            # 400: a provider called it dead meanwhile, or the first try was answered and nobody heard it.
            if await self.world.zulip("legacy unregister", "push/unregister", (200, 400), data=self.fields(device)) is not None:
                await self.come(device)
            else:
                device.told = True
        finally:
            device.busy = False

    async def notify(self):
        user = self.random.choice(self.users)
        devices = [(device, device.state) for device in self.devices if device.user == user]
        mark = new_mark()
        tokens = lambda apple: [device.token for device, _ in devices if (device.kind == "apns") == apple]
        answer = await self.world.zulip("legacy notify", "push/notify", json={
            "user_uuid": user, "realm_uuid": REALM,
            "gcm_payload": {"event": "message", "content": mark, "zulip_message_id": 1},
            "apns_payload": {"alert": {"title": "Iago", "body": mark}, "sound": "default", "badge": 0, "custom": {"zulip": {}}},
            "gcm_options": {"priority": "high"}, "android_devices": tokens(False), "apple_devices": tokens(True)})
        if answer is None:
            return
        deleted = answer["deleted_devices"]
        dead = set(deleted["android_devices"] + deleted["apple_devices"])
        for device, state in devices:
            if device.token in dead:
                self.world.ledger.told_dead(device, state)
            else:
                self.world.ledger.promise(mark, device, state)


class Nextcloud(Callers):
    """Talk on Android at the push proxy, and the servers that write to it."""

    AGENT = {"User-Agent": "Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0"}

    def __init__(self, world, count):
        super().__init__(world, count)
        self.keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(6)]
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        self.public = [key.public_key().public_bytes(serialization.Encoding.PEM, form).decode() for key in self.keys]

    async def make(self, number):
        token = self.world.token("fcm")
        device = Device("fcm", token)
        device.token, device.key = token, number % len(self.keys)
        preimage = json.dumps([f"a{number}@cloud.example.org", number]).encode()
        device.id, device.signature = encode(hashlib.sha512(preimage).digest()), self.sign(device, preimage)
        device.hash = hashlib.sha512(token.encode()).hexdigest()
        return device

    def sign(self, device, data):
        return encode(self.keys[device.key].sign(data, padding.PKCS1v15(), hashes.SHA512()))

    def fields(self, device):
        return {
            "pushToken": device.token, "deviceIdentifier": device.id, "deviceIdentifierSignature": device.signature,
            "userPublicKey": self.public[device.key]}

    async def register(self, device):
        return await self.world.call(
            "nextcloud register", "POST", f"{self.world.url}/devices", data=self.fields(device), headers=self.AGENT)

    async def sign_off(self):
        device = self.random.choice(self.devices)
        if device.busy or not device.state.alive:
            return
        device.busy = True
        try:
            device.become(False)
            # 403: it is gone already.
            url = f"{self.world.url}/devices"
            if await self.world.call("nextcloud unregister", "DELETE", url, (200, 403), data=self.fields(device)) is not None:
                await self.come(device)
            else:
                device.told = True
        finally:
            device.busy = False

    async def notify(self):
        sent, form = [], {}
        for number, device in enumerate(self.some(self.random.randint(1, 2), alive=False)):
            mark = new_mark()
            subject = base64.b64decode(mark) + secrets.token_bytes(241)
            sent.append((device, device.state, mark))
            form[f"notifications[{number}]"] = json.dumps({
                "deviceIdentifier": device.id, "pushTokenHash": device.hash, "subject": encode(subject),
                "signature": self.sign(device, subject), "priority": "high", "type": "alert"})
        answer = await self.world.call("nextcloud notify", "POST", f"{self.world.url}/notifications", data=form)
        if answer is None:
            return
        for device, state, mark in sent:
            if device.id in answer["unknown"]:
                self.world.ledger.told_dead(device, state)
            elif state.alive or not answer["failed"]:
                # Which of them failed is not said; of the living none may.
                self.world.ledger.promise(mark, device, state)


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
            self.users[user] = "Basic " + encode(f"{account['email']}:{account['api_key']}".encode())
        await super().prepare()

    async def make(self, number):
        device = Sealed("apns" if number % 2 else "fcm")
        device.user = 10 + number // 2
        device.tokens = [self.world.token(device.kind) for _ in range(self.TOKENS)]
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
        """Whether the device is active with what is new. Its state changes: what is under way meanwhile may be for either."""
        fields = {}
        if key:
            device.new_key()
            fields |= {"push_key_id": device.key_id, "push_key": encode(b"1" + device.keys[device.key_id])}
        if token:
            device.token = self.random.choice([one for one in device.tokens if one != device.token])
            fields |= {
                "token_kind": device.kind, "token_id": encode(hashlib.sha256(device.token.encode()).digest()[:8]),
                "bouncer_public_key": self.world.service.key, "encrypted_push_registration": Encrypted.seal(self, device)}
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

    async def churn(self):
        device = self.random.choice(self.devices)
        if device.busy:
            return
        device.busy = True
        try:
            what = self.random.random()
            if not device.state.alive or what < 0.2:
                device.become(False)
                if device.id is not None and await self.chat(
                        device, "remove device", "POST", "remove_client_device", (200, 400), device_id=device.id) is None:
                    return
                device.id = None
                await self.come(device)
            else:
                device.become(False)
                if await self.rotate(device, key=what < 0.7, token=what > 0.4):
                    device.become(True)
        finally:
            device.busy = False

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
    """Looks at what there is to see."""

    PATHS = ("/metrics", "/readyz", "/healthz", "/admin", "/admin/servers", "/admin/find?q=chat.example.org")

    def __init__(self, world):
        self.world = world

    async def look(self):
        path = self.world.random.choice(self.PATHS)
        # Not ready is an answer, too.
        await self.world.call("operator", "GET", self.world.admin + path, (200, 503) if path == "/readyz" else (200,))
