"""Strangers: bad requests from many addresses, and connections without a complete request."""

import asyncio
import contextlib
import json
import secrets

import aiohttp

REFUSED = tuple(range(400, 500)) + (503, None)


class Strangers:
    def __init__(self, world):
        self.world, self.sessions, self.open = world, [], 0

    async def __aenter__(self):
        for number in range(2, 10):
            connector = aiohttp.TCPConnector(limit=4, local_addr=(f"127.0.0.{number}", 0))
            self.sessions.append(aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=40)))
        return self

    async def __aexit__(self, *_):
        for session in self.sessions:
            await session.close()

    def bad(self):
        """A request that the service must refuse."""
        random, service = self.world.random, self.world.service
        known = {"Authorization": service.authorization}
        wrong = {"Authorization": "Basic " + secrets.token_urlsafe(24)}
        remotes = "/api/v1/remotes"
        return random.choice([
            ("GET", f"/{secrets.token_urlsafe(6)}", {}),
            ("POST", f"{remotes}/push/e2ee/notify", {"headers": wrong, "json": {}}),
            ("POST", f"{remotes}/push/e2ee/notify", {"headers": known, "data": "{"}),
            ("POST", f"{remotes}/push/e2ee/notify", {"headers": known, "json": {"realm_uuid": "no", "push_requests": [{}]}}),
            ("POST", f"{remotes}/push/e2ee/notify", {"headers": known, "data": b"x" * (3 << 20)}),
            ("POST", f"{remotes}/push/e2ee/register", {"headers": known, "data": {"realm_uuid": "x", "token_id": secrets.token_hex(8)}}),
            ("POST", f"{remotes}/push/register", {"headers": known, "data": {"token": "zz", "token_kind": "1"}}),
            ("POST", f"{remotes}/push/notify", {"headers": known, "data": secrets.token_bytes(500)}),
            ("POST", f"{remotes}/server/register", {"data": {"zulip_org_id": "x"}}),
            ("GET", "/api/v1/events", {"headers": wrong}),
            ("POST", "/api/v1/mobile_push/register", {"headers": wrong, "data": {"device_id": "1"}}),
            ("PUT", "/backend/v1/realms/x", {"headers": {"Authorization": f"Bearer {secrets.token_hex(8)}"}, "json": {}}),
            ("POST", "/devices", {"data": {"pushToken": secrets.token_hex(9), "deviceIdentifier": "?"}}),
            ("POST", "/notifications", {"data": {"notifications": json.dumps([]), "x" * 200: secrets.token_hex(999)}}),
            ("POST", "/notifications", {"headers": {"Content-Type": "application/json"}, "data": "[" * 5000}),
        ])

    async def call(self):
        method, path, options = self.bad()
        session = self.world.random.choice(self.sessions)
        # /notifications counts an unreadable entry instead of refusing the request.
        expected = REFUSED + ((200,) if path == "/notifications" else ())
        await self.world.call("bad request", method, self.world.url + path, expected, session, **options)

    async def connect(self):
        """Opens a connection that sends nothing, too little or nonsense, and keeps it open for a while."""
        if self.open >= 30:
            return
        self.open += 1
        random = self.world.random
        words = random.choice([
            b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST /devices HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\nabc",
            secrets.token_bytes(300), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" + secrets.token_bytes(200)])
        try:
            address = (f"127.0.1.{random.randint(1, 20)}", 0)
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.world.service.ports[0], local_addr=address)
                writer.write(words)
                await asyncio.sleep(random.uniform(0, 15))
                writer.close()
        finally:
            self.open -= 1
