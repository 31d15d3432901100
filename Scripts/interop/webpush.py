"""What we send by Web Push, http_ece opens, and who sends it py_vapid verifies.

A service of its own is called by a stock Zulip server and by a Nextcloud app, and sends to a push service of Python's.
Prints a line per check; exits 1 at the first that fails.

    webpush.py EXECUTABLE KEYS APNS_PORT FCM_PORT     the simulator's keys and ports
"""

import json
import re
import secrets
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import http_ece
import nacl.secret
from cryptography.hazmat.primitives.asymmetric import ec

import zulip
from app import Mismatch, Service as Caller, check, decode, encode
from nextcloud_client import Host
from push_service import PushService, Subscription, decode_url, encode_url, point, says
from service import Service

BACKEND_TOKEN = "interoperability"
FOUR_WEEKS = 28 * 86400


def example():
    """RFC 8291, appendix A: the same bytes that our own tests hold our encryption to."""
    receiver, sender = (
        ec.derive_private_key(int.from_bytes(decode_url(text)), ec.SECP256R1())
        for text in ("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94", "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    secret, salt = decode_url("BTBZMqHH6r4Tts7J_aSIgg"), decode_url("DGv6ra1nlYgDCS1FRnbzlw")
    plaintext = b"When I grow up, I want to be a watermelon"
    message = decode_url(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_y"
        "l95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")
    made = http_ece.encrypt(
        plaintext, salt=salt, private_key=sender, dh=point(receiver), auth_secret=secret, version="aes128gcm")
    check("RFC 8291: http_ece makes the example byte for byte", made == message, encode_url(made))
    opened = http_ece.decrypt(message, private_key=receiver, auth_secret=secret, version="aes128gcm")
    check("RFC 8291: http_ece opens it", opened == plaintext, opened)


class Phone(zulip.Phone):
    """A phone without Google's services."""

    def __init__(self, bouncer_key, subscription):
        super().__init__("fcm", bouncer_key, None)
        self.subscription, self.token, self.push_key = subscription, subscription.token, secrets.token_bytes(32)

    def item(self, text="Grüße 🚀", removal=False):
        sealed = nacl.secret.SecretBox(self.push_key).encrypt(text.encode())
        return {**super().item(removal=removal), "payload": {"push_key_id": self.key_id, "encrypted_data": encode(sealed)}}

    def open(self, request):
        """The text of what has arrived, and the key that it was sealed with by the chat server."""
        data = json.loads(self.subscription.decrypt(request.body))
        if sorted(data) != ["encrypted_data", "push_key_id"]:
            raise Mismatch(f"no message of Zulip's: {sorted(data)}")
        sealed = decode(data["encrypted_data"])
        return nacl.secret.SecretBox(self.push_key).decrypt(sealed).decode(), int(data["push_key_id"])


def look_at(what, request, subscription, origin, vapid, urgency):
    """What RFC 8030, 8188, 8291 and 8292 want of every message; the token of its sender."""
    headers, body = request.headers, request.body
    check(f"{what}: at the endpoint", origin + request.path == subscription.endpoint, request.path)
    check(f"{what}: aes128gcm", headers.get("content-encoding") == "aes128gcm", headers)
    check(f"{what}: TTL", re.fullmatch("[0-9]+", headers.get("ttl", "")) and int(headers["ttl"]) <= FOUR_WEEKS, headers)
    check(f"{what}: urgency", headers.get("urgency") == urgency, headers)
    check(f"{what}: one record with the sender's point", body[20] == 65 and len(body) - 86 <= int.from_bytes(body[16:20]) <= 4096)
    check(f"{what}: what every push service takes", len(body) <= 4096, len(body))
    token, claims, key = request.vapid()
    check(f"{what}: VAPID names this push service", claims["aud"] == origin, claims)
    check(f"{what}: VAPID ends within a day", time.time() < claims["exp"] <= time.time() + 86400, claims)
    check(f"{what}: VAPID says who to write to", re.match("(mailto:.+@|https?://)", claims["sub"]), claims)
    check(f"{what}: VAPID's key is the one that apps are told", key == vapid, key)
    return token


def told_key(service):
    answer = Caller(service.url)("GET", "/api/v1/zulip-services/webpush/vapid")
    check("the key is told without login, as Zulip answers", (answer["result"], answer["msg"]) == ("success", ""), answer)
    check("it is a point", decode_url(answer["vapid"])[:1] == b"\x04" and len(decode_url(answer["vapid"])) == 65, answer)
    return answer["vapid"]


def notify(server, phones, counts, gone=(), **options):
    answer = server.notify([phone.item(**options) for phone in phones])
    told = (answer["apple_successfully_sent_count"], answer["android_successfully_sent_count"])
    if told != counts or answer["delete_token_ids"] != list(gone):
        raise Mismatch(f"told {answer}, not {counts} and {list(gone)}")


def encrypted(server, bouncer_key, keys, vapid):
    here, there = PushService(keys), PushService(keys)
    phone, other, elsewhere = (Phone(bouncer_key, service.subscribe()) for service in (here, here, there))
    for each in (phone, other, elsewhere):
        check("Zulip: a subscription is registered as a token of kind fcm", server.register(each) is None)

    notify(server, [phone], (0, 1))
    first = here.next()
    token = look_at("Zulip", first, phone.subscription, here.origin, vapid, "high")
    check("Zulip: PyNaCl opens what http_ece has opened", phone.open(first) == ("Grüße 🚀", phone.key_id))
    notify(server, [other], (0, 1), removal=True)
    second = here.next()
    again = look_at("Zulip, of low priority", second, other.subscription, here.origin, vapid, "normal")
    check("Zulip: a push service's token is made once", token == again)
    check("Zulip: each message has keys of its own", first.body[:16] != second.body[:16] and first.body[21:86] != second.body[21:86])
    notify(server, [phone, elsewhere], (0, 2), text="x" * 1500)
    third = there.next()
    apart = look_at("Zulip, another push service", third, elsewhere.subscription, there.origin, vapid, "high")
    check("Zulip: every push service gets a token of its own", apart != token)
    check("Zulip: a long one", elsewhere.open(third)[0] == "x" * 1500 == phone.open(here.next())[0])
    check("connections are used again", (here.connections, there.connections) == (1, 1), (here.connections, there.connections))

    for status in (404, 410):
        there.first = [says(status)]
        notify(server, [phone, elsewhere], (0, 1), gone=[elsewhere.token_id])
        here.next(), there.next()
        check(f"Zulip: {status} ends it", server.register(elsewhere) is None)
    notify(server, [elsewhere], (0, 1))
    check("Zulip: it comes back", elsewhere.open(there.next())[0])
    here.close(), there.close()


def legacy(server, keys, vapid):
    service = PushService(keys)
    subscription = service.subscribe()
    user = {"user_id": 11, "user_uuid": str(uuid.uuid4())}
    server.send("POST", "push/register", {
        "server_uuid": server.org_id, **user, "realm_uuid": server.realm, "token": subscription.token, "token_kind": 2})
    data = {"event": "message", "zulip_message_id": 31, "content": "Grüße 🚀", "time": 1700000000}
    answer = server.send("POST", "push/notify", {
        **user, "realm_uuid": server.realm, "gcm_payload": data, "gcm_options": {"priority": "high"}, "apns_payload": {},
        "android_devices": [subscription.token], "apple_devices": []}, as_json=True)
    check("in clear: counted as Android's", answer["total_android_devices"] == 1, answer)
    request = service.next()
    look_at("in clear", request, subscription, service.origin, vapid, "high")
    arrived = json.loads(subscription.decrypt(request.body))
    check("in clear: the data", arrived == {name: str(value) for name, value in data.items()}, arrived)
    service.first = [says(410)]
    answer = server.send("POST", "push/notify", {
        **user, "realm_uuid": server.realm, "gcm_payload": data, "gcm_options": {}, "apns_payload": {},
        "android_devices": [subscription.token], "apple_devices": []}, as_json=True)
    gone = answer["deleted_devices"]["android_devices"]
    check("in clear: 410 ends it", gone == [subscription.token], answer)
    service.close()


def bad_subscriptions(server, bouncer_key, service):
    """Registrations that are refused, and of which nothing is kept."""
    def count():
        with sqlite3.connect(service.database) as database:
            return database.execute("SELECT count(*) FROM e2ee_registrations").fetchone()[0]

    def with_fields(**changes):
        subscription = Subscription("https://push.example.org/x")
        return "webpush:" + encode_url(json.dumps({**subscription.fields, **changes}).encode())

    off_the_curve = bytearray(point(Subscription("").key))
    off_the_curve[40] ^= 1
    bad = {
        "no base64": "webpush:*", "no JSON": "webpush:" + encode_url(b"{"), "not all of it": "webpush:" + encode_url(b"{}"),
        "no https": with_fields(endpoint="http://push.example.org/x"),
        "no URL": with_fields(endpoint="push.example.org"),
        "too long": with_fields(endpoint="https://push.example.org/" + "x" * 741),
        "credentials": with_fields(endpoint="https://a:b@push.example.org/x"),
        "a fragment": with_fields(endpoint="https://push.example.org/x#y"),
        "an address": with_fields(endpoint="https://192.0.2.1/x"), "another": with_fields(endpoint="https://[::1]/x"),
        "an address in other words": with_fields(endpoint="https://2130706433/x"),
        "a private name": with_fields(endpoint="https://localhost/x"),
        "another curve": with_fields(p256dh=encode_url(point(ec.generate_private_key(ec.SECP384R1())))),
        "no point": with_fields(p256dh=encode_url(bytes(off_the_curve))),
        "a compressed point": with_fields(p256dh=encode_url(b"\x02" + bytes(off_the_curve[1:33]))),
        "a short secret": with_fields(auth=encode_url(bytes(15))), "a long secret": with_fields(auth=encode_url(bytes(17))),
    }
    before = count()
    for what, token in bad.items():
        phone = Phone(bouncer_key, Subscription(""))
        phone.token = token
        told = server.register(phone)
        check(f"Zulip: refused: {what}", told == "BAD_REQUEST", told)
    check("Zulip: nothing of these is kept", count() == before)


class App:
    """A Nextcloud app with an account, as it calls the server."""

    def __init__(self, service, login, password):
        self.base = service.url + "/ocs/v2.php/apps/notifications/api/v2/webpush"
        self.authorization = "Basic " + encode(f"{login}:{password}".encode())

    def __call__(self, method, path="", **form):
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(self.base + path, data=data, method=method, headers={
            "Authorization": self.authorization, "OCS-APIRequest": "true", "Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)["ocs"]["data"]
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["ocs"]["data"]

    def subscribe(self, subscription, types="all"):
        fields = subscription.fields
        return self("POST", endpoint=fields["endpoint"], uaPublicKey=fields["p256dh"], auth=fields["auth"], appTypes=types)


def nextcloud(service, keys):
    push, host = PushService(keys), Host(service.url, BACKEND_TOKEN)
    key = Caller.basic(service.url, host.name, host.key)
    # An app password is what makes a caller an app.
    request = urllib.request.Request(service.url + "/ocs/v2.php/core/getapppassword?format=json", headers={
        "Authorization": key.authorization, "OCS-APIRequest": "true"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        app = App(service, host.name, json.load(answer)["ocs"]["data"]["apppassword"])
    status, told = app("GET", "/vapid")
    check("Nextcloud: the key is told", status == 200 and len(decode_url(told["vapid"])) == 65, told)
    vapid = told["vapid"]
    subscription = push.subscribe()
    check("Nextcloud: subscribed", app.subscribe(subscription) == (201, []))
    arrived = push.next()
    look_at("Nextcloud, activation", arrived, subscription, push.origin, vapid, arrived.headers.get("urgency"))
    token = json.loads(subscription.decrypt(arrived.body))["activationToken"]
    check("Nextcloud: the token that arrives is a UUID", uuid.UUID(token).version == 4, token)

    def say(nid, app_name="spreed"):
        return host.notify({
            "nid": nid, "app": app_name, "subject": f"Subject {nid} ü 🚀", "message": "Message", "type": "chat", "id": "room"})

    say(6)
    check("Nextcloud: nothing arrives before it is activated", push.idle())
    status, _ = app("POST", "/activate", activationToken=str(uuid.uuid4()))
    check("Nextcloud: another token activates nothing", status == 400, status)
    check("Nextcloud: activated", app("POST", "/activate", activationToken=token) == (202, []))
    check("Nextcloud: and stays so", app("POST", "/activate", activationToken=token) == (200, []))
    for nid, name, urgency in ((7, "spreed", "high"), (8, "files", "normal")):
        say(nid, name)
        request = push.next()
        look_at(f"Nextcloud, {name}", request, subscription, push.origin, vapid, urgency)
        read = json.loads(subscription.decrypt(request.body))
        wanted = {"nid": nid, "app": name, "subject": f"Subject {nid} ü 🚀", "type": "chat", "id": "room"}
        check(f"Nextcloud, {name}: the notification", read == wanted, read)
    host.notify({"delete_nids": [7]})
    read = json.loads(subscription.decrypt(push.next().body))
    check("Nextcloud: taken back", read == {"nid": 7, "delete": True}, read)
    check("Nextcloud: other kinds", app.subscribe(subscription, "all,-talk") == (200, []))
    say(9)
    say(10, "files")
    read = json.loads(subscription.decrypt(push.next().body))
    check("Nextcloud: only those kinds arrive", read["nid"] == 10 and push.idle(), read)
    push.answer = says(410)
    say(11, "files")
    push.next()
    push.answer = says(201)
    deadline = time.monotonic() + 60
    while (status := app("POST", "/activate", activationToken=token)[0]) == 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    check("Nextcloud: 410 ends it", (status, app("DELETE")) == (404, (200, [])), status)
    push.close()


def main(binary, keys, apns_port, fcm_port):
    example()
    service = Service(binary, keys, apns_port, fcm_port)
    service.start("--webpush.allow_private_hosts", "127.0.0.1", "--backend.token", BACKEND_TOKEN, "--operator.email", "op@example.org")
    server, bouncer_key = zulip.stock_server(service.binary, service.url, service.keys, service.database)
    server.upload_realm()
    vapid = told_key(service)
    encrypted(server, bouncer_key, service.keys, vapid)
    legacy(server, service.keys, vapid)
    bad_subscriptions(server, bouncer_key, service)
    nextcloud(service, service.keys)
    service.restart("--webpush.allow_private_hosts", "127.0.0.1", "--backend.token", BACKEND_TOKEN)
    check("the key survives a restart", told_key(service) == vapid)
    service.stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (Mismatch, zulip.Refused, zulip.RetryLater) as error:
        sys.exit(f"FAIL {error}")
