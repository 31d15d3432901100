"""Apple and Google as python-h2 plays them, which takes no byte that the protocol does not allow.

The service's HTTP/2 client is our own, and so is the simulator that all other tests use: python-h2 is an independent
implementation. One provider has generous limits. The other has a small header table, small windows and few streams. Both
send PINGs and padding, and close each connection with GOAWAY after 40 answers.
"""

import asyncio
import json
import threading
import time
import types

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from h2.settings import SettingCodes

from app import Program, check, item
from conformance.limits import TIMEOUT
from conformance.played import tls

# The number of requests that a connection answers.
LAST = 40
GENEROUS = {SettingCodes.MAX_CONCURRENT_STREAMS: 1000}
MEAN = {SettingCodes.MAX_CONCURRENT_STREAMS: 3, SettingCodes.INITIAL_WINDOW_SIZE: 100, SettingCodes.HEADER_TABLE_SIZE: 200}


class Provider(asyncio.Protocol):
    """One connection."""

    def __init__(self, settings, seen):
        self.settings, self.seen = settings, seen
        self.requests = {}
        self.answered = 0

    def connection_made(self, transport):
        self.transport = transport
        self.seen["connections"] += 1
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=self.settings)
        self.h2.initiate_connection()
        self.h2.update_settings(self.settings)
        self.flush()

    def flush(self):
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data):
        try:
            for event in self.h2.receive_data(data):
                # The client sends requests that come after the GOAWAY again elsewhere.
                if self.answered < LAST:
                    self.take(event)
        except h2.exceptions.ProtocolError as error:
            self.seen["violations"].append(repr(error))
            self.transport.close()
        self.flush()

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = (dict(event.headers), bytearray())
        elif isinstance(event, h2.events.DataReceived):
            self.requests[event.stream_id][1].extend(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.answer(event.stream_id, *self.requests.pop(event.stream_id))

    def answer(self, stream, headers, body):
        path = headers[b":path"].decode()
        body = json.loads(body)
        token = path.removeprefix("/3/device/") if path.startswith("/3/device/") else body["message"]["token"]
        self.seen["tokens"].append(token)
        self.answered += 1
        self.h2.ping(b"are you?")
        if path.startswith("/3/device/"):
            self.h2.send_headers(stream, [(":status", "200"), ("apns-id", headers[b"apns-id"].decode())], end_stream=True)
        else:
            name = b'{\n  "name": "projects/p/messages/0:%d"\n}\n' % stream
            self.h2.send_headers(stream, [(":status", "200"), ("content-type", "application/json; charset=UTF-8")])
            self.h2.send_data(stream, name[:9], pad_length=5)
            self.h2.send_data(stream, name[9:], end_stream=True)
        if self.answered == LAST:
            self.h2.close_connection()
            self.flush()
            self.transport.close()


def provide(context, settings):
    """A provider on a thread of its own: its address, and what it sees."""
    seen = {"connections": 0, "violations": [], "tokens": []}
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: Provider(settings, seen), "127.0.0.1", 0, ssl=context))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return f"https://localhost:{server.sockets[0].getsockname()[1]}", seen


def main(binary, simulator):
    for what, settings in ("a generous provider", GENEROUS), ("a mean provider", MEAN):
        send(binary, simulator.keys, what, settings)


def send(binary, keys, what, settings):
    address, seen = provide(tls(keys, "h2"), settings)
    with Program(binary, types.SimpleNamespace(keys=keys, apns=address, fcm=address), {}) as service:
        phones = [service.phone(kind) for kind in ("apns", "fcm") for _ in range(10)]
        for phone in phones:
            service.register(phone)
        for _ in range(10):
            service.notify_phones(*map(item, phones))
        deadline = time.monotonic() + TIMEOUT
        while len(seen["tokens"]) < 200 and time.monotonic() < deadline:
            time.sleep(0.1)
    check(f"{what}: python-h2 takes every byte", seen["violations"] == [], seen["violations"])
    times = {phone.token: seen["tokens"].count(phone.token) for phone in phones}
    check(f"{what}: all arrive, each once", set(times.values()) == {10}, (len(seen["tokens"]), times))
    check(f"{what}: connections that said goodbye are followed by others", seen["connections"] >= 5, seen["connections"])
