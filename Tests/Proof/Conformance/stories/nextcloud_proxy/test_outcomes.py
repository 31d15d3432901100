"""The outcome of notifications when providers, phones or the proxy itself fail."""

import concurrent.futures
import hashlib
import time
import types

import pytest

from conformance.phones import encode

RULES = pytest.mark.rules


def answered(answer):
    return answer.status, answer.body


def taken(unknown=(), failed=0):
    return 200, {"unknown": list(unknown), "failed": failed}


def registered(world, *phones):
    assert [world.register(phone).status for phone in phones] == [200] * len(phones)


short_deadline = pytest.mark.settings(proxy_deadline="500ms")


@short_deadline
@RULES("entry-sent", "notifications-deadline", "unknown-is-careful")
def test_what_providers_cannot_take_counts_as_sent_and_arrives_later(world):
    phones = [world.talk_android, world.talk_ios]
    registered(world, *phones)
    with world.simulator.outage():
        assert answered(world.notify(*[phone.entry() for phone in phones])) == taken()
        # The same request again is still the same.
        assert answered(world.notify(*[phone.entry() for phone in phones])) == taken()
    arrived = world.arrived(2)
    assert sorted(arrival["to"] for arrival in arrived) == ["talk_android", "talk_ios"]
    for arrival in arrived:
        payload = arrival["payload"]
        assert (payload if arrival["to"] == "talk_ios" else payload["message"]["data"])["subject"] == getattr(world, arrival["to"]).sealed


@short_deadline
@RULES("entry-sent", "notifications-deadline", "unknown-is-careful")
def test_a_provider_that_takes_its_time_is_not_waited_for_and_not_asked_again(world):
    phone = world.talk_android
    registered(world, phone)
    world.simulator.answer(phone.token, 200, delay_ms=6000, times=1)
    began = time.monotonic()
    assert answered(world.notify(phone.entry())) == taken()
    assert time.monotonic() - began < 5.8
    # Until its answer is there a restart would send it again.
    time.sleep(max(0, began + 6.2 - time.monotonic()))
    assert [arrival["to"] for arrival in world.arrived(1)] == ["talk_android"]


@RULES("entry-dead", "unknown-is-careful")
@pytest.mark.parametrize("name, status, reason", [("talk_android", 404, "UNREGISTERED"), ("files_ios", 410, "Unregistered")])
def test_a_dead_token_is_unknown_at_once_and_its_row_gone(world, name, status, reason):
    phone = getattr(world, name)
    assert world.register(phone).status == 200
    # Apple says since when: a death before the registration says nothing about it.
    world.simulator.answer(phone.token, status, reason=reason, **({"timestamp": world.later(60)} if status == 410 else {}))
    assert answered(world.notify(phone.entry(1), phone.entry(2))) == taken([phone.identifier], 2)
    world.simulator.forget(phone.token)
    assert answered(world.notify(phone.entry(3))) == taken([phone.identifier], 1)
    assert world.unregister(phone).status == 403
    # The app registers again at its next start.
    assert world.register(phone).status == 200
    assert answered(world.notify(phone.entry(4))) == taken()
    assert [arrival["to"] for arrival in world.arrived(1)] == [name]


@RULES("entry-other-token", "unknown-is-careful")
def test_a_hash_of_a_token_that_the_proxy_has_yet_to_get_fails_and_is_unknown_after_an_hour(world):
    phone, other = world.talk_android, world.files_android
    registered(world, phone, other)
    early = phone.entry(1, token="another_token")
    assert answered(world.notify(early)) == taken(failed=1)
    world.running.restart_later(2 * 3600)
    assert answered(world.notify(phone.entry(2, token="another_token"), other.entry())) == taken([phone.identifier], 1)
    # The phone brings it after all.
    assert world.register(phone, token="another_token").status == 200
    assert answered(world.notify(phone.entry(3, token="another_token"))) == taken()
    assert sorted(arrival["to"] for arrival in world.arrived(2)) == ["files_android", "talk_android at its other token"]


KEYS = ["user", "other", *(f"another {number}" for number in range(3, 23))]


@pytest.fixture
def rows(world):
    """A phone's rows by their numbers, each of another user key and another token."""
    phone = world.talk_android
    tokens = [f"{phone.another_token}{number}" for number in range(len(KEYS))]
    world.expect_more(tokens)

    def entry(number, again):
        phone.numbered = tokens[number]
        return phone.entry(again, by=KEYS[number], token="numbered")

    def register(number):
        return world.send({"request": "POST /devices", "as": "talk_android", "form": {
            **phone.form(by=KEYS[number]), "pushToken": tokens[number]}}).status

    return types.SimpleNamespace(entry=entry, register=register, unregister=lambda number: world.unregister(phone, by=KEYS[number]).status)


@RULES("other-key-and-token", "device-identity")
def test_a_row_too_many_displaces_the_oldest_of_its_address_that_never_had_a_notification(world, rows):
    assert [rows.register(number) for number in range(16)] == [200] * 16
    # The first has had one, the second is the oldest of the others.
    assert answered(world.notify(rows.entry(0, 1))) == taken()
    assert [rows.register(number) for number in (16, 17)] == [200, 200]
    assert answered(world.notify(rows.entry(1, 2), rows.entry(2, 2))) == taken(failed=1)
    assert answered(world.notify(rows.entry(0, 2))) == taken()
    assert [rows.unregister(number) for number in range(18)] == [200, 403, *[200] * 16]
    assert len(world.arrived(3)) == 3


@RULES("other-key-and-token")
def test_the_first_four_rows_that_had_a_notification_are_never_displaced(world, rows):
    for number in range(5):
        assert rows.register(number) == 200
        assert answered(world.notify(rows.entry(number, 1))) == taken()
    assert [rows.register(number) for number in range(5, 21)] == [200] * 16
    assert answered(world.notify(*[rows.entry(number, 2) for number in range(5)])) == taken(failed=1)
    assert [rows.unregister(number) for number in range(21)] == [*[200] * 4, 403, *[200] * 16]
    assert len(world.arrived(9)) == 9


# The settings make it a service of its own, whose address was told nothing yet.
@pytest.mark.settings(new_devices_per_address="100/1h")
@pytest.mark.option("strangers-learn-nothing")
@RULES("entry-unknown", "unknown-is-careful")
def test_an_address_is_told_of_two_thousand_devices_that_are_not_registered(world):
    phone = world.talk_android
    entry = phone.entry()
    guesses = [{**entry, "deviceIdentifier": encode(hashlib.sha512(b"%d" % number).digest())} for number in range(2500)]
    told = [guess["deviceIdentifier"] for guess in guesses[:2000]]
    assert answered(world.notify(*guesses)) == taken(told, 2500)
    assert answered(world.notify(phone.entry())) == taken(failed=1)


@RULES("unknown-is-careful")
def test_for_an_hour_after_the_database_was_emptied_nobody_is_unknown(world):
    phones = [world.talk_android, *(getattr(world, f"talk_android{number}") for number in range(2, 14))]
    registered(world, *phones)
    stranger = world.files_android
    assert answered(world.notify(stranger.entry())) == taken([stranger.identifier], 1)
    # How many there are is looked at when it starts, and from time to time.
    world.running.restart()
    world.running.lose_database()
    assert answered(world.notify(phones[0].entry(), stranger.entry(2))) == taken(failed=2)
    # Who comes back is sent to meanwhile.
    assert world.register(phones[0]).status == 200
    assert answered(world.notify(phones[0].entry(2), phones[1].entry())) == taken(failed=1)
    assert [arrival["to"] for arrival in world.arrived(1)] == ["talk_android"]
    world.running.restart_later(3700)
    assert answered(world.notify(phones[1].entry(3))) == taken([phones[1].identifier], 1)


@RULES("unknown-is-careful", "error-503", "notifications-deadline")
@pytest.mark.option("waits-for-its-database")
def test_a_database_that_is_away_is_waited_for_and_makes_nobody_unknown(world):
    phone = world.talk_android
    assert world.register(phone).status == 200
    with concurrent.futures.ThreadPoolExecutor() as threads, world.simulator.outage():
        with world.running.without_database():
            began = time.monotonic()
            answer = world.notify(phone.entry(), world.files_android.entry())
            assert time.monotonic() - began < 10
            # For a later one it comes back.
            late = threads.submit(world.notify, phone.entry(2))
            concurrent.futures.wait([late], 0.5)
        assert answered(late.result()) == taken()
    # What can be told without it is; what could not be kept is not sent either.
    assert answer.status == 503 and answer.header("Retry-After") and b"unknown" not in answer.bytes
    assert answered(world.notify(phone.entry(3))) == taken()
    assert len(world.arrived(2)) == 2


@pytest.mark.slow
@RULES("pace")
@pytest.mark.option("proxy-limits")
def test_a_device_gets_60_at_once_and_a_hundred_more_at_that_pace(world):
    phone = world.talk_android
    assert world.register(phone).status == 200
    answer = answered(world.notify(*[phone.entry(number) for number in range(250)]))
    failed = answer[1]["failed"]
    assert answer == taken(failed=failed) and 0 < failed <= 90
    assert len(world.arrived(250 - failed)) == 250 - failed


@short_deadline
@RULES("register-device", "entry-sent")
def test_kill_9_loses_neither_registrations_nor_what_was_taken(world):
    phone, other = world.talk_android, world.files_ios
    registered(world, phone, other)
    with world.simulator.outage():
        assert answered(world.notify(phone.entry(), other.entry())) == taken()
        world.running.kill()
    world.running.restart()
    assert {arrival["to"] for arrival in world.arrived(2)} == {"talk_android", "files_ios"}
    # After a kill, a push may come twice; an iPhone shows it once.
    assert answered(world.notify(phone.entry(2))) == taken()
    assert any(arrival["payload"]["message"]["data"]["subject"] == phone.notification(2)[0]
               for arrival in world.arrived(1) if arrival["to"] == "talk_android")
