"""What a sender is told when the app's provider, the app or the gateway itself fails, and what arrives all the same."""

import concurrent.futures
import time

import pytest

RULES = pytest.mark.rules

short_deadline = pytest.mark.settings(gateway_deadline="500ms")


@pytest.fixture
def is_last(running):
    """No test after this one uses its service."""
    yield
    running.is_spent = True


def refused(answer, status):
    return answer.status == status and list(answer.body) == ["code", "message"] and (status not in (429, 503) or answer.header("Retry-After").isdigit())


@short_deadline
@RULES("answer-201")
def test_what_providers_cannot_take_is_taken_and_arrives_later(world):
    phones = [world.android, world.ios]
    world.subscribed(*phones, sender="sender")
    with world.outage():
        for phone in phones:
            assert world.post(phone).status == world.post(phone, number=2, length=4096).status == 201
    arrived = world.arrived(4)
    assert sorted(arrival["to"] for arrival in arrived) == ["android", "android", "ios", "ios"]
    for phone in phones:
        [data] = [data for arrival in arrived if arrival["to"] == phone.name and "body" in (data := world.data(arrival))]
        assert phone.open(data) == b"Hello 1"
        answer = world.fetch(phone.kept, phone)
        assert answer.status == 200 and answer.bytes == phone.message(2, length=4096)[0]


@short_deadline
@RULES("topic")
@pytest.mark.parametrize("name", ["android", "ios"])
def test_a_topic_replaces_what_waits_and_nothing_else(world, name):
    phone, other = getattr(world, name), getattr(world, f"{name}2")
    world.subscribed(phone, other, sender="sender")
    with world.outage():
        for number, topic in enumerate(["a", "a", "b", None, None]):
            assert world.post(phone, number=number, headers={"Topic": topic} if topic else {}).status == 201
        # Another app's topic is another.
        assert world.post(other, number=5, headers={"Topic": "a"}).status == 201
    assert sorted(world.texts(5)) == [f"Hello {number}" for number in range(1, 6)]


@short_deadline
@RULES("answer-201", "renew")
def test_kill_9_loses_neither_subscriptions_nor_messages(world):
    world.subscribed(world.android, world.ios, sender="sender")
    with world.outage():
        assert [world.post(phone).status for phone in (world.android, world.ios)] == [201, 201]
        world.running.kill()
    world.running.restart()
    assert world.texts(2) == ["Hello 1", "Hello 1"]
    assert world.renew(world.android).body == {"id": world.android.id, "endpoint": world.android.endpoint}
    assert world.post(world.android, number=2).status == 201
    # After a kill, a push may come twice; an iPhone shows it once.
    assert "Hello 2" in world.texts(1)


@RULES("answer-410", "show-subscription", "renew", "renewing-without-key")
@pytest.mark.parametrize("name, status, reason", [("android", 404, "UNREGISTERED"), ("ios", 410, "Unregistered")])
def test_a_dead_token_ends_the_subscription_until_its_app_brings_another(world, name, status, reason):
    phone = getattr(world, name)
    world.subscribed(phone, sender="sender")
    assert world.post(phone).status == 201
    # Apple says since when: a death before the registration says nothing about it.
    world.refuse(phone, status, reason=reason, **({"timestamp": int(time.time() + 60) * 1000} if status == 410 else {}))
    assert refused(world.post(phone, number=2), 410)
    world.simulator.forget(phone.token)
    assert refused(world.post(phone, number=3), 410)
    assert refused(world.show(phone), 404)
    made = world.renew(phone, token="another_token", sender="sender")
    assert (made.status, made.body) == (201, {"id": phone.id, "endpoint": phone.endpoint})
    assert world.post(phone, number=4).status == 201
    assert [arrival["to"] for arrival in world.arrived(2)] == [name, f"{name} at its other token"]


@short_deadline
@RULES("answer-410")
def test_what_waits_for_a_subscription_ends_with_it(world):
    world.subscribed(world.android, sender="sender")
    with world.outage():
        assert world.post(world.android).status == 201
        assert world.end(world.android).status == 204
    world.subscribed(world.android2, sender="sender")
    assert world.post(world.android2, number=2).status == 201
    assert [arrival["to"] for arrival in world.arrived(1)] == ["android2"]


@RULES("answer-503")
@pytest.mark.parametrize("name, reason", [("android", "SOMETHING_NEW"), ("ios", "PayloadEmpty")])
def test_what_a_provider_refuses_is_not_promised(world, name, reason):
    phone = getattr(world, name)
    world.subscribed(phone, sender="sender")
    world.refuse(phone, 400, reason=reason)
    assert refused(world.post(phone), 503)
    assert refused(world.post(phone, number=2, length=4096), 503)
    world.simulator.forget(phone.token)
    assert world.post(phone, number=3).status == 201
    assert world.texts(1) == ["Hello 3"]


@RULES("answer-503", "database-away")
@pytest.mark.option("waits-for-its-database")
def test_a_database_that_is_away_is_waited_for_and_nothing_is_promised_without_it(world):
    phone = world.android
    world.subscribed(phone, sender="sender")
    with concurrent.futures.ThreadPoolExecutor() as threads, world.outage():
        with world.running.without_database():
            began = time.monotonic()
            assert refused(world.post(phone), 503)
            # Mastodon would have given up by then, and post again what may have been taken.
            assert time.monotonic() - began < 10
            # For later ones it comes back.
            late = [threads.submit(world.post, phone, number=2), threads.submit(world.post, phone, number=3, length=4096)]
            concurrent.futures.wait(late, 0.5)
        assert [call.result().status for call in late] == [201, 201]
    assert world.post(phone, number=4).status == 201
    arrived = [world.data(arrival) for arrival in world.arrived(3)]
    assert sorted(phone.open(data) for data in arrived if "body" in data) == [b"Hello 2", b"Hello 4"]
    assert world.fetch(phone.kept, phone).bytes == phone.message(3, length=4096)[0]


@RULES("no-410-after-loss", "renewing-without-key", "renew")
def test_a_database_that_was_lost_tells_nobody_that_a_subscription_has_ended(world):
    world.subscribed(world.android, sender="sender")
    world.running.lose_database()
    assert refused(world.post(world.android), 503)
    assert refused(world.show(world.android), 503)
    made = world.renew(world.android, sender="sender")
    assert (made.status, made.body) == (201, {"id": world.android.id, "endpoint": world.android.endpoint})
    assert world.post(world.android, number=2).status == 201
    assert world.texts(1) == ["Hello 2"]


@pytest.mark.usefixtures("is_last")
@short_deadline
@RULES("answer-429", "answer-503")
@pytest.mark.option("rate-limits")
def test_at_most_a_hundred_wait_for_a_subscription(world):
    world.subscribed(world.android, sender="sender")
    with world.outage():
        answers = [world.post(world.android, number=number) for number in range(102)]
        assert [answer.status for answer in answers] == [201] * 100 + [429] * 2
        assert all(refused(answer, 429) for answer in answers[100:])
        assert refused(world.post(world.android, number=102, length=4096), 429)
        assert world.waiting(world.android) == []
    assert sorted(world.texts(100)) == sorted(f"Hello {number}" for number in range(100))


@pytest.mark.slow
@RULES("pace")
@pytest.mark.option("rate-limits")
def test_a_phone_gets_60_at_once_and_more_at_that_pace(world):
    world.subscribed(world.android, sender="sender")
    numbers = range(150)
    for number in numbers:
        world.android.message(number)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda number: world.post(world.android, number=number).status, numbers))
    assert statuses == [201] * 150
    arrived = len(world.arrived(0))
    assert 60 <= arrived <= 61 + 1.4 * (time.monotonic() - began)
    assert arrived + len(world.arrived(150 - arrived)) == 150
    assert time.monotonic() - began >= 14


@short_deadline
@RULES("taking-back", "vapid-needed", "vapid-key")
def test_what_waits_is_taken_back_by_whoever_may_send(world):
    world.subscribed(world.android, sender="sender")
    with world.outage():
        posts = [world.post(world.android), world.post(world.android, number=2, length=4096), world.post(world.android, number=3, headers={"Topic": "a"})]
        left = world.post(world.android, number=4)
        locations = [answer.header("Location") for answer in posts]
        for location in locations:
            assert refused(world.take_back(location, sender=None), 401)
            assert refused(world.take_back(location, sender="other"), 403)
        assert len(world.waiting(world.android)) == 1
        # The answer does not tell whether there was something.
        assert [world.take_back(location).status for location in locations * 2] == [204] * 6
        assert world.waiting(world.android) == []
        assert left.header("Location") not in locations
    assert world.texts(1) == ["Hello 4"]
    # What a provider has is not taken back.
    assert world.take_back(left.header("Location")).status == 204
    assert refused(world.take_back(world.android.endpoint + "/x"), 404)
    world.end(world.android)
    assert refused(world.take_back(left.header("Location")), 410)
