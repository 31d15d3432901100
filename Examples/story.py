"""What an app lives through with push-bouncer, told to an example's try-app, a tiny command that is the app.

    story.py PUSH_BOUNCER COMMAND...

The command keeps the app's keys and its subscription in a file, STATE, that only its user can read. It prints JSON, one object
a line. Where it cannot do what it was told, it says so on standard error, prints nothing, and exits with another status than 0.

    STATE subscribe BASE_URL apns|fcm TOKEN [--ios-app-id ID] [--sender-key BASE64URL] [--seal-to BOUNCER_PUBLIC_KEY]
                          {"endpoint", "p256dh", "auth"}; where STATE has a subscription already, it is renewed
    STATE renew NEW_TOKEN            the same
    STATE received                   standard input has the push's data as JSON. {"text": the plaintext}, "" if there was no body;
                                     {"text": null, "reason": a sentence} where a good app shows its placeholder
    STATE waiting                    as at the app's start: one {"text"} for each body that waits, oldest first
    STATE unsubscribe                nothing
    STATE zulip-register apns|fcm TOKEN BOUNCER_PUBLIC_KEY [--ios-app-id ID]
                          the members of Zulip's POST /mobile_push/register, all texts
    STATE zulip-open BASE64          {"text": the notification's plaintext}
"""

import contextlib
import http.client
import http.server
import json
import re
import subprocess
import sys
import tempfile
import threading
import types
import urllib.parse
from pathlib import Path

import nacl.secret
from app import Mismatch, check
from conformance.limits import TIMEOUT, limit
from conformance.phones import decode, encode, encode_url, item, new_token, point
from conformance.simulator import Simulator
from webpush_gateway import ENCODINGS, LONGEST, Gateway, send, signer, status

# Seconds for the whole story, which takes one minute where nothing else runs.
LIMIT = 1800
TEXT = "Grüße 🚀"


class Road:
    """The way from the app to the gateway, which loses what it is told to lose."""

    def __init__(self, gateway):
        self.calls, self.lost = [], None
        road = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                road.calls.append((self.command, self.path, body))
                self.close_connection = True
                if road.lost == "call":
                    return
                connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=TIMEOUT)
                with contextlib.closing(connection):
                    connection.request(self.command, self.path, body, dict(self.headers))
                    answer = connection.getresponse()
                    data = answer.read()
                if road.lost == "answer":
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding", "date", "server"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def lose(self, what):
        """Loses what the next command calls, again and again, as some platforms call once more by themselves: the `call`,
        which then does not reach the gateway, or its `answer`."""
        self.lost = what

    def last(self, method):
        """The path and the JSON of the last call of that method."""
        path, body = next((path, body) for called, path, body in reversed(self.calls) if called == method)
        return path, json.loads(body)


class World:
    """Everything but the app."""

    def __init__(self, binary, command, simulator, gateway, folder):
        self.binary, self.command, self.simulator, self.gateway, self.folder = binary, command, simulator, gateway, Path(folder)
        self.road = Road(gateway)
        self.apps = 0

    def new_state(self):
        self.apps += 1
        return self.folder / f"app-{self.apps}.json"


class App:
    """The example's app on one phone."""

    def __init__(self, world, kind, sender=None, *, sealed=False, begin=True):
        self.world, self.kind, self.sender, self.state, self.token = world, kind, sender, world.new_state(), new_token(kind)
        self.tokens, self.count = [self.token], 0
        self.options = ["--ios-app-id", world.gateway.app_id] if kind == "apns" else []
        if sender:
            self.options += ["--sender-key", encode_url(point(sender.private_key))]
        if sealed:
            self.options += ["--seal-to", world.gateway.bouncer_key()]
        if begin:
            self.subscribe()

    def run(self, *words, told=None):
        """What the command prints, and what it says if it fails."""
        done = subprocess.run(
            [*self.world.command, str(self.state), *words], input="" if told is None else json.dumps(told), capture_output=True,
            text=True, timeout=TIMEOUT)
        self.world.road.lost = None
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode and (lines or not done.stderr.strip()):
            raise Mismatch(f"{words[0]} fails without a word, or after having printed: {done}")
        return lines, done.stderr if done.returncode else None

    def do(self, *words, told=None):
        """The same of what must work."""
        lines, failure = self.run(*words, told=told)
        if failure:
            raise Mismatch(f"{self.kind}: {words[0]} fails: {failure}")
        return lines

    def subscribe(self):
        self.take(self.do("subscribe", self.world.road.url, self.kind, self.token, *self.options))

    def renew(self):
        self.token = new_token(self.kind)
        self.tokens.append(self.token)
        self.take(self.do("renew", self.token))

    def take(self, lines):
        (told,) = lines
        self.endpoint = told["endpoint"]
        # In the form in which pywebpush wants it.
        self.subscription = types.SimpleNamespace(keys={"p256dh": told["p256dh"], "auth": told["auth"]})

    def push(self, text, encoding="aes128gcm", **options):
        """The chat server sends."""
        return send(self, text, self.sender, encoding=encoding, **options)

    def pushed(self, text, encoding="aes128gcm", **options):
        """The same, and what of it arrives at the phone."""
        answer = self.push(text, encoding, **options)
        if status(answer) != (201, False):
            raise Mismatch(f"{self.kind}: the gateway refuses the message: {answer}")
        return self.arrived()

    def arrived(self):
        """The data of the push that has arrived since the last call."""
        self.count += 1
        found = self.world.simulator.wait(self.tokens, self.count)
        if len(found) != self.count:
            raise Mismatch(f"{self.kind}: {len(found)} have arrived, not {self.count}")
        payload = found[-1]["payload"]
        return payload if self.kind == "apns" else payload["message"]["data"]

    def received(self, told):
        """The text that the app shows of a push; None if it shows its placeholder."""
        (shown,) = self.do("received", told=told)
        if shown["text"] is None and not shown.get("reason"):
            raise Mismatch(f"{self.kind}: no text, and no reason: {shown}")
        return shown["text"]

    def waiting(self):
        return [shown["text"] for shown in self.do("waiting")]


def long(text, encoding="aes128gcm"):
    """A text that does not fit into a push."""
    return text + "." * (LONGEST[encoding] - len(text.encode()))


def messages(world):
    """What is sent can be read, and nothing else."""
    for kind in "apns", "fcm":
        for encoding in ENCODINGS:
            sender = signer(encoding)
            app, who = App(world, kind, sender), f"{kind}, {encoding}"
            check(f"{who}: only its user can read the app's file", app.state.stat().st_mode & 0o77 == 0, oct(app.state.stat().st_mode))
            told = app.pushed(TEXT, encoding)
            check(f"{who}: a message", app.received(told) == TEXT)
            other = App(world, kind)
            check(f"{who}: not in another app", other.received(told) is None)
            check(f"{who}: nor if that takes it for its own", other.received(
                {**told, "subscription": other.pushed(None)["subscription"]}) is None)
            for place in 0, len(told["body"]) // 2, len(told["body"]) - 3:
                letter = "A" if told["body"][place] != "A" else "B"
                changed = {**told, "body": told["body"][:place] + letter + told["body"][place + 1:]}
                check(f"{who}: changed at {place}: not shown", app.received(changed) is None)
            for what, wrong in [
                ("no body", {"body": None}), ("not base64url", {"body": "!"}), ("short", {"body": "AAAA"}), ("empty", {"body": ""}),
                ("another encoding", {"encoding": "gzip"}), ("a number", {"body": 7}), ("long", {"body": "A" * 100_000}),
            ]:
                changed = {name: value for name, value in {**told, **wrong}.items() if value is not None}
                check(f"{who}: {what}: not shown", app.received(changed) is None)
            if encoding == "aesgcm":
                for member in "crypto_key", "encryption":
                    check(f"{who}: without {member}: not shown",
                          app.received({name: value for name, value in told.items() if name != member}) is None)
            check(f"{who}: a long message", app.received(app.pushed(long(TEXT, encoding), encoding)) == long(TEXT, encoding))
            check(f"{who}: no message", app.received(app.pushed(None)) == "")
            app.sender = signer(encoding)
            check(f"{who}: from another sender", status(app.push(TEXT, encoding)) == (403, True))


def first_answer(world):
    """The answer to the first call is lost. The app subscribes again, and its phone rings once for each message."""
    for kind in "apns", "fcm":
        app = App(world, kind, begin=False)
        world.road.lose("answer")
        lines, failure = app.run("subscribe", world.road.url, kind, app.token, *app.options)
        check(f"{kind}: the app notices that the first answer is lost", failure and not lines, (lines, failure))
        app.subscribe()
        check(f"{kind}: subscribed all the same", app.received(app.pushed(TEXT)) == TEXT)
        endpoint = app.endpoint
        app.subscribe()
        check(f"{kind}: who is subscribed does not subscribe again", app.endpoint == endpoint)
        app.received(app.pushed(TEXT))
        check(f"{kind}: rings once for a message", len(world.simulator.deliveries([app.token])) == app.count)


def fetching(world):
    """Bodies that wait for the app."""
    for kind in "apns", "fcm":
        app = App(world, kind)
        for what in "call", "answer":
            told = app.pushed(long(what), ttl=600)
            world.road.lose(what)
            check(f"{kind}: the {what} of a fetch is lost: the placeholder", app.received(told) is None)
            check(f"{kind}: later it is there", app.received(told) == long(what))
        texts = [long(f"while it was off {number}") for number in range(3)]
        for text, encoding in zip(texts, [*ENCODINGS, None]):
            app.pushed(text[:LONGEST[encoding or "aes128gcm"]], encoding or "aes128gcm", ttl=600)
        told = app.pushed(long("unfetched"), ttl=600)
        world.road.lose("call")
        app.received(told)
        check(f"{kind}: all are there at the app's start, the oldest first", [text.rstrip(".") for text in app.waiting()] == [
            *(text.rstrip(".") for text in texts), "unfetched"])
        check(f"{kind}: and are not shown twice", app.waiting() == [])
        for text, topic in ("old", "a"), ("other", "b"), ("new", "a"):
            app.pushed(long(text), ttl=600, topic=topic)
        check(f"{kind}: of a topic the newest", app.waiting() == [long("other"), long("new")])
        told = app.pushed(long("secret"), ttl=600)
        (secret,) = re.findall(r'"secret" ?: ?"([^"]+)"', app.state.read_text())
        app.state.write_text(app.state.read_text().replace(secret, "A" * len(secret)))
        check(f"{kind}: with a wrong secret: the placeholder", app.received(told) is None)
        lines, failure = app.run("waiting")
        check(f"{kind}: nor is anything listed", failure and not lines, (lines, failure))
        check(f"{kind}: it does not tell its secret", "AAAAAAAA" not in failure and secret not in failure, failure)


def tokens(world):
    """The phone gets another token, or Apple and Google say that the app is gone, and it is not."""
    for kind in "apns", "fcm":
        for sender in None, signer("aes128gcm"):
            app, who = App(world, kind, sender), f"{kind}, {'for one sender' if sender else 'for anybody'}"
            endpoint = app.endpoint
            world.simulator.answer(app.token, 503)
            check(f"{who}: while the provider is away", status(app.push("in flight", ttl=600)) == (201, False))
            old = app.token
            app.renew()
            check(f"{who}: the endpoint stays", app.endpoint == endpoint)
            _, put = world.road.last("PUT")
            check(f"{who}: the sender's key is named again", put.get("application_server_key", "absent") == (
                encode_url(point(sender.private_key)) if sender else None), put)
            check(f"{who}: what was in flight arrives at the new token", app.received(app.arrived()) == "in flight")
            check(f"{who}: not at the old one", world.simulator.deliveries([old]) == [])
            world.simulator.answer(app.token, *((410,) if kind == "apns" else (404,)))
            check(f"{who}: the provider says that the app is gone", status(app.push(TEXT)) == (410, True))
            app.renew()
            check(f"{who}: it is back, at the same endpoint", app.endpoint == endpoint)
            check(f"{who}: and reads", app.received(app.pushed(TEXT)) == TEXT)
            if sender:
                app.sender = None
                check(f"{who}: but from nobody else", status(app.push(TEXT)) == (401, True))


def logout(world):
    for kind in "apns", "fcm":
        app = App(world, kind)
        told = app.pushed(long(TEXT), ttl=600)
        kept = app.state.read_text()
        world.road.lose("answer")
        lines, failure = app.run("unsubscribe")
        check(f"{kind}: the answer to the logout is lost", failure and not lines, (lines, failure))
        check(f"{kind}: logs out again", app.do("unsubscribe") == [])
        check(f"{kind}: its server is told", status(app.push(TEXT)) == (410, True))
        check(f"{kind}: nothing is left in the app", not re.search('"secret" ?: ?"', app.state.read_text() if app.state.exists() else ""))
        check(f"{kind}: what comes late is not shown", app.received(told) is None)
        app.state.write_text(kept)
        lines, failure = app.run("waiting")
        check(f"{kind}: bodies are gone with it", not lines, lines)
        check(f"{kind}: also by name", app.received(told) is None)


def sealed(world):
    """The token is sealed to the bouncer's key: nobody on the way sees it."""
    for kind in "apns", "fcm":
        app = App(world, kind, sealed=True)
        path, post = world.road.last("POST")
        check(f"{kind}: sealed", sorted(post) == ["application_server_key", "bouncer_public_key", "encrypted_push_registration"] or
              sorted(post) == ["bouncer_public_key", "encrypted_push_registration"], sorted(post))
        check(f"{kind}: a message", app.received(app.pushed(TEXT)) == TEXT)
        app.renew()
        check(f"{kind}: sealed also at the renewal", "token" not in world.road.last("PUT")[1])
        check(f"{kind}: a message to the new token", app.received(app.pushed(TEXT)) == TEXT)


def zulip(world):
    """Zulip's notifications, with its server and its bouncer."""
    for kind in "apns", "fcm":
        app, gateway = App(world, kind, begin=False), world.gateway
        (made,) = app.do("zulip-register", kind, app.token, gateway.bouncer_key(), *app.options)
        gateway.remotes("POST", "/push/e2ee/register", form={"realm_uuid": gateway.chat_realm["uuid"], **{
            name: made[name] for name in ("token_id", "bouncer_public_key", "encrypted_push_registration")}})
        key, plain = decode(made["push_key"]), json.dumps({"type": "test", "realm_name": TEXT})
        check(f"{kind}: a key of SecretBox", len(key) == 33 and key[0] == 0x31)
        check(f"{kind}: the key's id", 0 <= int(made["push_key_id"]) < 2**32 and made["token_kind"] == kind, made)
        sealed = encode(nacl.secret.SecretBox(key[1:]).encrypt(plain.encode()))
        answer = gateway.notify_phones(item(made["token_id"], kind, {"push_key_id": int(made["push_key_id"]), "encrypted_data": sealed}))
        check(f"{kind}: Zulip's bouncer sends", answer["apple_successfully_sent_count"] + answer["android_successfully_sent_count"] == 1)
        told = app.arrived()
        check(f"{kind}: its notification", app.do("zulip-open", told["encrypted_data"]) == [{"text": plain}])
        for place in 5, 40, len(sealed) - 6:
            changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1:]
            lines, failure = app.run("zulip-open", changed)
            check(f"{kind}: changed at {place}: not shown", failure and not lines, (lines, failure))
        (again,) = app.do("zulip-register", kind, new_token(kind), gateway.bouncer_key(), *app.options)
        check(f"{kind}: with a new token the key stays", again["push_key"] == made["push_key"] and again["token_id"] != made["token_id"])


def main(binary, *command):
    failed = False
    with contextlib.ExitStack() as stack:
        stack.enter_context(limit(LIMIT, "the story"))
        simulator = Simulator(binary)
        stack.callback(simulator.stop)
        gateway = stack.enter_context(Gateway(binary, simulator, {"gateway_deadline": "1s"}))
        world = World(binary, command, simulator, gateway, stack.enter_context(tempfile.TemporaryDirectory(prefix="example.")))
        for part in messages, first_answer, fetching, tokens, logout, sealed, zulip:
            print(f"--   {part.__name__.replace('_', ' ')}", flush=True)
            try:
                part(world)
            except Mismatch as mismatch:
                failed = True
                print(f"FAIL {mismatch}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
