"""An app that shares no code with us, at the built-in chat-server side: PyNaCl and the standard library only.

Starts `simulate` and `serve` of the given executable in a temporary folder, registers an iPhone and an Android phone
as a client would (Documentation/Protocols/Zulip.md), has the backend API send, and opens what reaches the simulator: it must be what
was sent. Prints a line per check; exits 1 at the first that fails.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nacl.exceptions
import nacl.public

from app import PATIENCE, TOPIC, Events, Mismatch, Phone, Service, check, encode


class Simulator:
    """The providers' side: what has arrived."""

    def __init__(self, base):
        self.control = Service(base + "/_control")
        self.seen = 0
        self.nonces = set()

    def arrived(self, count):
        deliveries = []
        deadline = time.monotonic() + PATIENCE
        while len(deliveries) < count and time.monotonic() < deadline:
            answer = self.control("GET", f"/deliveries?since={self.seen}&wait=5")
            self.seen = answer["next"]
            deliveries += answer["deliveries"]
        if len(deliveries) != count:
            raise Mismatch(f"{len(deliveries)} deliveries arrived, not {count}")
        return deliveries

    def expect(self, what, phones, plaintext, *, silent=False, since=None):
        """One delivery for each phone, in the shape of its provider, which opens to the plaintext; with `since`, that
        and the time at which the server sent it."""
        deliveries = {delivery["token"]: delivery for delivery in self.arrived(len(phones))}
        for phone in phones:
            delivery = deliveries.get(phone.token)
            check(f"{what}: reaches the {phone.kind} token in use", delivery is not None, list(deliveries))
            check_shape(f"{what}: {phone.kind} shape", phone, delivery, silent)
            try:
                opened, nonce = phone.open(delivery)
            except nacl.exceptions.CryptoError as error:
                raise Mismatch(f"{what}: does not open: {error}") from error
            if since is not None:
                check(f"{what}: the time", since <= opened.pop("time", 0) <= time.time(), opened)
            check(f"{what}: opens to what was sent", opened == plaintext, f"{opened} is not {plaintext}")
            check(f"{what}: the nonce is new", nonce not in self.nonces)
            self.nonces.add(nonce)


def check_shape(what, phone, delivery, silent):
    """A notification shows something until the app has read it; a removal is a plain background push."""
    payload, headers = delivery["payload"], delivery["headers"]
    if phone.kind == "apns":
        alert = {"mutable-content": 1, "alert": {"title": "New notification"}, "sound": "default"}
        aps = {"content-available": 1} if silent else alert
        check(what, payload.keys() == {"push_key_id", "encrypted_data", "aps"} and payload["aps"] == aps, payload)
        check(f"{what}: key id", payload["push_key_id"] == phone.key_id, payload["push_key_id"])
        wanted = {
            "apns-topic": TOPIC, "apns-push-type": "background" if silent else "alert",
            "apns-priority": "5" if silent else "10",
        }
        check(f"{what}: headers", wanted.items() <= headers.items() and "apns-collapse-id" not in headers, headers)
    else:
        message = payload["message"]
        priority = message.get("android", {}).get("priority", "").lower()
        check(
            what, payload.keys() == {"message"} and "notification" not in message
            and message["token"] == phone.token and message["data"].keys() == {"push_key_id", "encrypted_data"}, payload)
        check(f"{what}: key id", message["data"]["push_key_id"] == str(phone.key_id), message["data"]["push_key_id"])
        check(f"{what}: priority", priority == ("normal" if silent else "high"), priority)


@contextlib.contextmanager
def running(binary, folder, name, *arguments):
    """A command that goes on; ended, cleanly, at the end."""
    with open(folder / f"{name}.out", "w") as out, open(folder / f"{name}.log", "w") as log:
        process = subprocess.Popen([binary, name, *arguments], cwd=folder, stdout=out, stderr=log)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        check(f"{name} ends when asked to", process.wait(PATIENCE) == 0, process.returncode)
    finally:
        process.kill()
        process.wait()


def wait_for(what, process, read):
    """What `read` finds in the end; nothing yet is None."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        found = read()
        if found is not None:
            return found
        time.sleep(0.05)
    raise Mismatch(f"{what} did not come up")


def lines(file):
    """The documents in a file, one a line; the last may not be whole yet."""
    for line in file.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            yield json.loads(line)


def port(log):
    return next((line["port"] for line in lines(log) if line.get("listener") == "public"), None)


def call(binary, folder, *arguments):
    return json.loads(subprocess.run([binary, *arguments, "--json"], cwd=folder, stdout=subprocess.PIPE, check=True).stdout)


def play(chat, backend, user, bouncer_key, simulator):
    realm = {"realm_url": "http://localhost:8080", "realm_name": "push-bouncer", "user_id": user}
    phones = [Phone(kind, chat, bouncer_key) for kind in ("apns", "fcm")]
    iphone, android = phones
    events = Events(chat)
    fresh = {
        "push_key_id": None, "push_token_id": None, "pending_push_token_id": None,
        "push_token_last_updated_timestamp": None, "push_registration_error_code": None,
    }
    check(
        "new devices are in the snapshot",
        events.devices == {str(phone.device): fresh for phone in phones}, events.devices)
    answer = chat("POST", "/mobile_push/e2ee/test_notification", status=400)
    check("no test without an active device", answer["code"] == "NO_ACTIVE_PUSH_DEVICE", answer)

    def active(phone):
        return events.until(phone.device, {"push_token_id": phone.token_id, "pending_push_token_id": None})

    for phone in phones:
        phone.register(phone.key_fields(), phone.token_fields())
        told = active(phone)
        taken, accepted = told[0], told[-1]
        check(
            f"{phone.kind}: an event tells what was taken",
            taken.pop("push_token_last_updated_timestamp") > time.time() - PATIENCE and taken == {
                "push_key_id": phone.key_id, "pending_push_token_id": phone.token_id,
                "push_registration_error_code": None}, taken)
        check(
            f"{phone.kind}: and one that it is active",
            accepted == {"push_token_id": phone.token_id, "pending_push_token_id": None}, accepted)

    def notify(what, payload, expected=None, *, silent=False, to=phones):
        result = backend("POST", "/notifications", body={"zulip": payload})["zulip"]
        counts = {
            "devices": len(to), "apple_successfully_sent_count": to.count(iphone),
            "android_successfully_sent_count": to.count(android), "deleted_devices": 0,
        }
        check(f"{what}: the counts", result == counts, result)
        simulator.expect(what, to, payload if expected is None else expected, silent=silent)

    message = {
        **realm, "type": "message", "message_id": 31, "time": int(time.time()), "sender_id": 6,
        "sender_full_name": "Zoë Aaron", "sender_avatar_url": "https://example.org/a?b=c&d=é", "channel_id": 3,
        "channel_name": "Dänemark", "recipient_type": "channel", "topic": "<b>\"läuft\"</b>",
        "content": "Grüße 🚀 \\ / \u2028 " + "ä" * 100,
    }
    direct = {**message, "recipient_type": "direct", "recipient_user_ids": [6, user]}
    for name in ("channel_id", "channel_name", "topic"):
        del direct[name]
    notify("message in a channel", message)
    notify("direct message", direct)
    bare = {name: value for name, value in message.items() if name not in realm}
    notify("message without its realm", bare, message)
    ids = list(range(1000, 1250))
    removal = {**realm, "type": "remove", "message_ids": ids[::-1]}
    notify("removal of 250", removal, {**removal, "message_ids": ids[50:]}, silent=True)

    def test(what, to, **form):
        since = int(time.time())
        chat("POST", "/mobile_push/e2ee/test_notification", form=form)
        simulator.expect(what, to, {**realm, "type": "test"}, since=since)

    test("test notification", phones)
    test("test notification to one", [android], device_id=android.device)

    for phone in phones:
        phone.new_key()
        phone.register(phone.key_fields())
        told = events.until(phone.device, {"push_key_id": phone.key_id})
        check(f"{phone.kind}: an event tells of the new key", told == [{"push_key_id": phone.key_id}], told)
    notify("message under new keys", message)

    for phone in phones:
        old = phone.token
        phone.new_token()
        phone.register(phone.token_fields())
        told = active(phone)
        check(
            f"{phone.kind}: events tell of the new token, and not of the key",
            [sorted(changes) for changes in told] == [
                ["pending_push_token_id", "push_registration_error_code", "push_token_last_updated_timestamp"],
                ["pending_push_token_id", "push_token_id"]], told)
        check(f"{phone.kind}: the token is another", phone.token != old)
    notify("message to new tokens", message)

    stranger = Phone("fcm", chat, encode(bytes(nacl.public.PrivateKey.generate().public_key)))
    events = Events(chat)
    stranger.register(stranger.key_fields(), stranger.token_fields())
    events.until(stranger.device, {"push_registration_error_code": "INVALID_BOUNCER_PUBLIC_KEY"})
    check("a registration sealed to another bouncer is refused by name", True)
    notify("message with a refused device around", message)

    for phone in (iphone, stranger):
        chat("POST", "/remove_client_device", form={"device_id": phone.device})
    notify("message after the iPhone has logged out", message, to=[android])
    check("every nonce was another", len(simulator.nonces) == 2 * 7 + 3 + 1, len(simulator.nonces))


def main(binary):
    binary = os.path.realpath(binary)
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        # Nothing of this machine's own configuration belongs in here.
        for variable in [variable for variable in os.environ if variable.startswith("PUSH_BOUNCER_")]:
            del os.environ[variable]
        process = stack.enter_context(
            running(binary, folder, "simulate", "--apns-port", "0", "--fcm-port", "0", "--webpush-port", "0", "--keys-out", "Keys", "--json"))
        endpoints = wait_for("the simulator", process, lambda: next(lines(folder / "simulate.out"), None))
        call(binary, folder, "init")
        account = call(binary, folder, "account", "add", "--email", "iago@example.org")
        process = stack.enter_context(running(
            binary, folder, "serve", "--http.port", "0", "--admin.port", "0", "--log.format", "json",
            "--backend.token", token, "--providers.ca_file", "Keys/ca.pem",
            "--apns.endpoint", endpoints["apns_endpoint"], "--fcm.endpoint", endpoints["fcm_endpoint"]))
        service = f"http://127.0.0.1:{wait_for('the service', process, lambda: port(folder / 'serve.log'))}"
        bouncer_key = json.loads(next((folder / "Keys/bouncer").glob("*.json")).read_text())["public_key"]
        user = account["user_id"]
        try:
            play(
                Service.basic(f"{service}/api/v1", account["email"], account["api_key"]),
                Service(f"{service}/backend/v1/realms/{account['realm_uuid']}/users/{user}", f"Bearer {token}"),
                user, bouncer_key,
                # The control listens with and without TLS.
                Simulator(endpoints["fcm_endpoint"].replace("https:", "http:")))
        except Mismatch:
            sys.stderr.write((folder / "serve.log").read_text()[-4000:])
            raise


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Mismatch as mismatch:
        sys.exit(f"FAIL {mismatch}")
