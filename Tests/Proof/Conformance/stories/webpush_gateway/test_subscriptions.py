"""What an endpoint says, and how long subscriptions and bodies last."""

import time
import urllib.parse

import pytest

from conformance.phones import decode_url, encode_url

RULES = pytest.mark.rules


@RULES("endpoint", "server-sees-no-token", "subscribe", "secret")
def test_an_endpoint_says_nothing_of_its_app_and_is_new_each_time(world):
    phone, made = world.android, []
    for _ in range(3):
        world.subscribed(phone)
        made.append((phone.id, phone.endpoint, phone.secret))
    assert all(len(set(column)) == 3 for column in zip(*made))
    for id, endpoint, secret in made:
        assert phone.token not in endpoint and secret not in endpoint
        assert len(endpoint.rpartition("/")[2]) >= 22
    # Each is on its own.
    phone.id, phone.endpoint, phone.secret = made[0]
    assert world.end(phone).status == 204
    assert world.post(phone, sender=None).status == 410
    phone.id, phone.endpoint, phone.secret = made[1]
    assert world.post(phone, sender=None).status == 201
    assert world.texts(1) == ["Hello 1"]


@RULES("answer-404", "endpoint")
def test_no_bit_of_an_endpoint_can_be_changed(world):
    world.subscribed(world.android)
    endpoint = world.android.endpoint
    base, _, name = endpoint.rpartition("/")
    data = decode_url(name)
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 1
        world.android.endpoint = f"{base}/{encode_url(bytes(changed))}"
        assert world.post(world.android, sender=None).status == 404, index


@RULES("secret", "renew", "answer-201")
def test_a_restart_changes_neither_secrets_nor_endpoints(world):
    world.subscribed(world.android, sender="sender")
    assert world.post(world.android).status == 201
    before = world.show(world.android).body
    world.running.restart()
    assert world.show(world.android).body == before
    assert world.post(world.android, number=2).status == 201
    assert world.texts(2) == ["Hello 1", "Hello 2"]


@RULES("show-subscription", "renew")
def test_it_shows_when_it_was_last_renewed(world):
    def now():
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    before = now()
    world.subscribed(world.android)
    first = world.show(world.android).body["renewed_at"]
    time.sleep(1.1)
    assert world.renew(world.android).status == 200
    second = world.show(world.android).body["renewed_at"]
    assert before <= first < second <= now()


@RULES("fetch-body")
def test_a_body_is_kept_five_minutes_longer_than_its_message_or_after_it_was_fetched(world):
    world.subscribed(world.android, sender="sender")
    assert world.show(world.android).status == 200
    for number, life in enumerate([1, 3600, 3600]):
        assert world.post(world.android, number=number, length=4096, headers={"TTL": str(life)}).status == 201
    short, fetched, long = (world.data(arrival)["message"] for arrival in world.arrived(3))
    assert [world.fetch(fetched, world.android).bytes for _ in range(2)] == [world.android.message(1, length=4096)[0]] * 2
    time.sleep(1.1)
    assert world.fetch(short, world.android).status == 200
    world.running.restart_later(310)
    assert [world.fetch(message, world.android).status for message in (short, fetched, long)] == [404, 404, 200]


@RULES("waiting-body", "list-bodies", "bodies-limit")
@pytest.mark.option("rate-limits")
def test_the_newest_hundred_bodies_wait_and_are_listed_in_order(world):
    world.subscribed(world.android, world.android2)
    other = world.post(world.android2, sender=None, number=500, length=4096)
    assert [world.post(world.android, sender=None, number=number, length=4096).status for number in range(104)] == [201] * 104
    waiting = world.waiting(world.android)
    bodies = [world.fetch(name, world.android).bytes for name in waiting]
    assert bodies == [world.android.message(number, length=4096)[0] for number in range(4, 104)]
    assert world.waiting(world.android) == []
    assert other.status == 201 and len(world.waiting(world.android2)) == 1


@RULES("bodies-limit", "topic", "push-topic")
@pytest.mark.parametrize("length", [4096, None])
def test_a_newer_message_of_its_topic_takes_the_place_of_a_body(world, length):
    world.subscribed(world.android)
    for number, topic in enumerate(["a", "b"]):
        assert world.post(world.android, sender=None, number=number, length=4096, headers={"Topic": topic}).status == 201
    # One that is not promised takes no place.
    world.refuse(world.android, 403, reason="SENDER_ID_MISMATCH")
    assert world.post(world.android, sender=None, number=2, length=length, headers={"Topic": "a"}).status in (410, 503)
    assert len(world.waiting(world.android)) == 2
    world.renew(world.android, token="another_token")
    assert world.post(world.android, sender=None, number=3, length=length, headers={"Topic": "a"}).status == 201
    bodies = [world.fetch(name, world.android).bytes for name in world.waiting(world.android)]
    assert bodies == [world.android.message(number, length=4096)[0] for number in ([1, 3] if length else [1])]


@RULES("waiting-body", "unsubscribe", "renewing-without-key")
def test_bodies_belong_to_the_subscription(world):
    world.subscribed(world.ios, sender="sender")
    for number in range(2):
        assert world.post(world.ios, number=number, length=4096).status == 201
    world.refuse(world.ios, 410, reason="Unregistered")
    assert world.post(world.ios).status == 410
    waiting = world.waiting(world.ios)
    assert len(waiting) == 2
    refusal = world.renew(world.ios, token="another_token")
    assert refusal.status == 400 and refusal.body["code"] == "application_server_key_missing"
    assert world.renew(world.ios, token="another_token", sender="sender").status == 201
    assert world.waiting(world.ios) == waiting
    assert world.fetch(waiting[0], world.ios).bytes == world.ios.message(0, length=4096)[0]
    assert world.end(world.ios).status == 204
    assert world.waiting(world.ios) == []
    assert world.fetch(waiting[1], world.ios).status == 404


@RULES("push-body", "push-message", "body-size")
@pytest.mark.parametrize("name", ["android", "ios"])
def test_a_body_of_any_length_arrives_or_can_be_fetched(world, name):
    phone = getattr(world, name)
    world.subscribed(phone)
    lengths = [104, 1000, 2000, 2700, *range(2800, 3060, 20), 3100, 3500, 4095, 4096]
    for length in lengths:
        assert world.post(phone, sender=None, length=length).status == 201
    arrived = [world.data(arrival) for arrival in world.arrived(len(lengths))]
    assert "body" in arrived[0] and "message" in arrived[-1]
    for length, data in zip(lengths, arrived):
        assert ("body" in data) != ("message" in data)
        body = decode_url(data["body"]) if "body" in data else world.fetch(data["message"], phone).bytes
        assert body == phone.message(length=length)[0]


@RULES("vapid", "push-crypto-key")
@pytest.mark.option("draft-vapid")
def test_a_sender_of_the_draft_names_both_keys_in_one_header(world):
    world.subscribed(world.android, sender="sender")
    _, coding = world.android.message(encoding="aesgcm")
    headers = {"Authorization": world.make_vapid(["sender", {"form": "WebPush %t"}])}
    for between in (";", ",", "; "):
        both = {"Crypto-Key": f"{coding['Crypto-Key']}{between}p256ecdsa={world.sender.key}"}
        assert world.post(world.android, encoding="aesgcm", headers={**headers, **both}).status == 201
    # The app gets only what it needs.
    assert [(data["crypto_key"], data["encryption"]) for data in map(world.data, world.arrived(3))] == [
        (coding["Crypto-Key"].removeprefix("dh="), coding["Encryption"].removeprefix("salt="))] * 3


@RULES("answer-201")
def test_a_message_has_a_name_of_its_own(world):
    world.subscribed(world.android, sender="sender")
    names = {urllib.parse.urljoin(world.android.endpoint, world.post(world.android, number=number).header("Location")) for number in range(3)}
    assert len(names) == 3 and world.android.endpoint not in names
    assert len(world.arrived(3)) == 3
