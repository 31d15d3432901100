"""The worked example of section 12, and what a chat server seals for a phone."""

import base64
import hashlib
import json
import secrets
import time

import nacl.bindings
import nacl.public
import nacl.secret
import pytest

from conformance.phones import encode, seal, token_id

#: The bytes 00 01 ... 1f.
PRIVATE_KEY = bytes(range(32))
BOX = ("XrHb4olAOsvUHBpHjLCV2FnABFFasjkjScoS1Dl6aSUzxgXdRxhWOuse012kI3UkYIi9scXp2pr6DHJNZhlDbIr2bNaefDKTOjx/BnuXB+YZ"
       "Q2XmI5rbcjLBhjRkvMbTUAUW4zB9psmUP5NQkTlKcswgsS7lN+Vp8BSZv39W0Y3zHz6BoLJ3cg==")
REGISTRATION = b'{"token":"c0ffee","token_kind":"apns","timestamp":1754385290,"ios_app_id":"example.app"}'
PUSH_KEY = "MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt"
NOTIFICATION = b'{"realm_url":"http://zulip.testserver","realm_name":"Zulip Dev","user_id":10,"type":"test","time":1754577820}'
ENCRYPTED_DATA = ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXhn2OaMIdeNrRPRVXXK3+IbJishlr8evOpc2ZEYvDYkEOlF3m8cZK85BDAE1Np0I0+HlDmA0URVjx5"
                  "hsq8wGZtKQn+2XC5azPlvBWOdx4eS5zs+RKG1nxA72ALguG+Lnki6knUxTxiftyj3hK1HqpkyMJfv9IV36LxDj7+kM=")

example = pytest.mark.settings(bouncer_private_key=encode(PRIVATE_KEY))


def register(world, **changes):
    form = {"realm_uuid": world.server.realm, "token_id": token_id("c0ffee"), "encrypted_push_registration": BOX,
            "bouncer_public_key": "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8=", **changes}
    return world.server.call("POST", "push/e2ee/register", form=form)


@pytest.mark.rules("example-values", "example-sealed-token", "example-ephemeral-key", "example-tag", "example-ciphertext",
                   "example-nonce", "example-token-ids")
def test_an_independent_library_makes_of_the_vectors_what_the_document_says():
    box = base64.b64decode(BOX)
    private = nacl.public.PrivateKey(PRIVATE_KEY)
    assert encode(bytes(private.public_key)) == "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8="
    assert (len(box), len(REGISTRATION)) == (136, 88)
    assert box[:32].hex() == "5eb1dbe289403acbd41c1a478cb095d859c004515ab2392349ca12d4397a6925"
    assert box[32:48].hex() == "33c605dd4718563aeb1ed35da4237524"
    assert box[48:56].hex() == "6088bdb1c5e9da9a"
    nonce = hashlib.blake2b(box[:32] + bytes(private.public_key), digest_size=24).digest()
    assert nonce.hex() == "0501587e0a8c757e64350bac3dca547abca5ba2aa6aded4f"
    assert nacl.bindings.crypto_box_open(b"" + box[32:], nonce, box[:32], PRIVATE_KEY) == REGISTRATION
    assert nacl.public.SealedBox(private).decrypt(box) == REGISTRATION
    assert hashlib.sha256(b"c0ffee").hexdigest().startswith("fb0288872031fc48")


@pytest.mark.rules("example-apns-token", "example-apns-token-upper", "example-fcm-token")
def test_token_ids_and_the_numbers_that_a_database_keeps():
    for token, text, number in (("c0ffee", "+wKIhyAx/Eg=", -359574906294109112), ("C0FFEE", "jS5/TZMf7/8=", -8273535494275469313),
                                ("android-token", "RjY0jpbVz/o=", 5059289018417926138)):
        assert token_id(token) == text
        assert int.from_bytes(base64.b64decode(text), "big", signed=True) == number


@example
@pytest.mark.rules("libsodium", "example-passed-on")
def test_the_registration_of_the_example_opens_and_is_too_old(world):
    old = register(world)
    assert (old.status, old.body["code"], old.body["msg"]) == (400, "REQUEST_EXPIRED", "Request expired")
    # It was opened: another token's id is noticed before the age.
    wrong = register(world, token_id=token_id("C0FFEE"))
    assert (wrong.status, wrong.body["msg"]) == (400, "Invalid encrypted_push_registration")


@example
@pytest.mark.rules("example-sent", "example-apns-token", "example-passed-on", "token-id")
def test_the_example_as_of_today_reaches_apple(world):
    phone = world.apns
    phone.token = "c0ffee"
    made = {"token": "c0ffee", "token_kind": "apns", "timestamp": int(time.time()), "ios_app_id": "example.app"}
    assert register(world, encrypted_push_registration=seal(world.bouncer_key, made)).body == {"result": "success", "msg": ""}
    before = len(world.simulator.deliveries(["c0ffee"]))
    answer = world.server.notify({
        "token_id": "+wKIhyAx/Eg=", "http_headers": {"apns_priority": 10, "apns_push_type": "alert"},
        "payload": {"push_key_id": 10, "encrypted_data": ENCRYPTED_DATA,
                    "aps": {"mutable-content": 1, "sound": "default", "alert": {"title": "New notification"}}}})
    assert answer.body["apple_successfully_sent_count"] == 1
    [delivery] = world.simulator.deliveries(["c0ffee"])[before:]
    assert delivery["token"] == "c0ffee"
    assert {name: delivery["headers"][name] for name in ("apns-topic", "apns-push-type", "apns-priority")} == {
        "apns-topic": "example.app", "apns-push-type": "alert", "apns-priority": "10"}
    assert delivery["payload"]["encrypted_data"] == ENCRYPTED_DATA


@pytest.mark.rules("example-registers", "example-sent", "example-sealed-notification", "push-key", "sealed-notification")
def test_the_notification_of_the_example_is_the_secret_box_of_its_plaintext():
    key = base64.b64decode(PUSH_KEY)
    assert (len(key), key[0], key[:4].hex(), key[-2:].hex()) == (33, 0x31, "3136940c", "416d")
    sealed = base64.b64decode(ENCRYPTED_DATA)
    assert len(NOTIFICATION) == 109 and sealed[:24] == bytes(range(24))
    assert sealed[24:40].hex() == "867d8e68c21d78dad13d15575cadfe21"
    assert nacl.secret.SecretBox(key[1:]).encrypt(NOTIFICATION, bytes(range(24))) == sealed


@pytest.mark.rules("sealed-notification", "plaintext-unread", "plaintext", "who-sees-what")
@pytest.mark.parametrize("name", ["apns", "fcm", "web"])
def test_what_a_chat_server_seals_reaches_the_phone_byte_for_byte(world, name):
    phone, key = getattr(world, name), secrets.token_bytes(32)
    assert world.server.register(phone).status == 200
    plain = {"type": "message", "realm_url": "https://chat.example.org", "realm_name": "Zürich 🚀", "user_id": 10, "content": "Grüße"}
    sealed = encode(nacl.secret.SecretBox(key).encrypt(json.dumps(plain).encode()))
    item = world.make_item([name, {"payload": {"push_key_id": 4294967295, "encrypted_data": sealed}}])
    assert world.server.notify(item).status == 200
    [arrival] = world.arrived(1)
    payload = arrival["payload"]["message"]["data"] if name == "fcm" else arrival["payload"]
    assert int(payload["push_key_id"]) == 4294967295
    assert json.loads(nacl.secret.SecretBox(key).decrypt(base64.b64decode(payload["encrypted_data"]))) == plain


