"""Devices, changes of their keys and tokens, and the events that clients get."""

import concurrent.futures
import itertools
import json
import secrets
import time

import pytest

from conformance.phones import encode

RULES = pytest.mark.rules


def queue(world, **more):
    return world.send({"request": "POST register", "form": {"event_types": '["device"]'}, **more}).body


def events(world, queue, block=False, **more):
    path = f"GET events?queue_id={queue['queue_id']}&last_event_id={queue['last_event_id']}" + ("" if block else "&dont_block=true")
    answer = world.send({"request": path, **more})
    assert answer.status == 200 and answer.body["queue_id"] == queue["queue_id"], answer.body
    return answer.body["events"]


def heard(world, queue, count):
    world.until(lambda: len(events(world, queue)) >= count, f"{count} events")
    return events(world, queue)


def send(world, phone, fields):
    return world.send({"request": "POST mobile_push/register", "form": {"device_id": phone.device, **fields}})


@RULES("device-event", "events", "queue-close", "push-register-success")
def test_every_client_hears_of_all_that_happens_in_its_order(world):
    one, two = queue(world), queue(world)
    phone = world.fcm
    assert send(world, phone, phone.fields).body == {"result": "success", "msg": ""}
    world.until(lambda: phone.state["push_token_id"] == phone.token_id, "active")
    assert world.send({"request": "POST remove_client_device", "form": {"device_id": phone.device}}).status == 200
    found = heard(world, one, 4)
    common = {"type": "device", "device_id": phone.device}
    assert [{name: value for name, value in event.items() if name != "id"} for event in found] == [
        {**common, "op": "add"},
        {**common, "op": "update", "push_key_id": phone.push_key_id, "pending_push_token_id": phone.token_id,
         "push_token_last_updated_timestamp": found[1]["push_token_last_updated_timestamp"],
         "push_registration_error_code": None},
        {**common, "op": "update", "push_token_id": phone.token_id, "pending_push_token_id": None},
        {**common, "op": "remove"}]
    numbers = [event["id"] for event in found]
    assert numbers == sorted(set(numbers)) and numbers[0] > one["last_event_id"]
    assert events(world, two) == found
    # Only what comes after the number that is named.
    assert events(world, {**one, "last_event_id": numbers[1]}) == found[2:]
    assert world.send({"request": f"DELETE events?queue_id={one['queue_id']}"}).status == 200
    assert world.send({"request": f"GET events?queue_id={one['queue_id']}&last_event_id=0"}).body["code"] == "BAD_EVENT_QUEUE_ID"
    # It is nobody else's.
    assert world.send({"request": f"GET events?queue_id={two['queue_id']}&last_event_id=0&dont_block=true", "as": "bob"}).body["code"] == "BAD_EVENT_QUEUE_ID"


@RULES("device-event", "events")
def test_who_waits_hears_of_it_at_once(world):
    opened = queue(world)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(events, world, opened, block=True)
        time.sleep(0.3)
        assert not waiting.done()
        number = world.send({"request": "POST register_client_device"}).body["device_id"]
        began = time.monotonic()
        assert [(event["op"], event["device_id"]) for event in waiting.result()] == [("add", number)]
        # Without one it would wait for a heartbeat.
        assert time.monotonic() - began < 45


@pytest.mark.slow
@RULES("events")
def test_without_any_a_heartbeat_comes_after_fifty_seconds(world):
    opened, began = queue(world), time.monotonic()
    assert events(world, opened, block=True) == [{"type": "heartbeat", "id": opened["last_event_id"]}]
    # A client gives up after 90.
    assert 45 < time.monotonic() - began < 90


@RULES("limit-waiting-clients")
@pytest.mark.settings(calls_per_user="100000/60s")
def test_more_than_twenty_clients_of_a_user_do_not_wait(world):
    opened = queue(world)
    with concurrent.futures.ThreadPoolExecutor(max_workers=24) as pool:
        waiting = [pool.submit(events, world, opened, block=True) for _ in range(22)]
        # The last two, so that the others have come, too.
        at_once = [call.result() for call in itertools.islice(concurrent.futures.as_completed(waiting), 2)]
        assert at_once == [[{"type": "heartbeat", "id": opened["last_event_id"]}]] * 2
        assert world.send({"request": "POST register_client_device"}).status == 200
        assert [call.result()[0]["type"] for call in waiting].count("device") == 20


@RULES("limit-queues")
@pytest.mark.settings(calls_per_user="100000/60s")
def test_a_user_has_a_hundred_queues_the_last_ones(world):
    first = queue(world)
    others = [queue(world) for _ in range(99)]
    assert events(world, first) == []
    others.append(queue(world))
    assert events(world, others[0]) == events(world, others[-1]) == []
    answer = world.send({"request": f"GET events?queue_id={first['queue_id']}&last_event_id=0&dont_block=true"})
    assert answer.body["code"] == "BAD_EVENT_QUEUE_ID"


@RULES("device-add", "limit-devices")
@pytest.mark.settings(calls_per_user="100000/60s")
def test_a_user_has_at_most_five_hundred_devices_with_numbers_of_their_own(world):
    def add():
        return world.send({"request": "POST register_client_device"})

    first = add().body["device_id"]
    assert world.send({"request": "POST remove_client_device", "form": {"device_id": first}}).status == 200
    numbers = [add().body["device_id"] for _ in range(500)]
    assert first not in numbers and len(set(numbers)) == 500
    answer = add()
    assert (answer.status, answer.body["msg"]) == (400, "Too many devices (limit: 500): remove one first.")


@RULES("old-app-calls", "limit-devices")
@pytest.mark.settings(calls_per_user="100000/60s")
def test_a_user_has_at_most_five_hundred_legacy_tokens(world):
    answers = [world.send({"request": "POST users/me/android_gcm_reg_id", "form": {"token": f"token-{number}"}}) for number in range(501)]
    assert {answer.status for answer in answers[:500]} == {200}
    assert (answers[500].status, answers[500].body["msg"]) == (400, "Too many devices (limit: 500)")


@RULES("push-register-key-alone", "push-key")
def test_a_new_key_takes_the_place_of_the_old_one(world):
    world.prepare("fcm is registered")
    phone = world.fcm
    opened = queue(world)
    assert send(world, phone, phone.key_fields).status == 200
    assert events(world, opened) == [], "the same key is nothing new"
    phone.push_key_id, phone.secret = secrets.randbits(31), secrets.token_bytes(32)
    assert send(world, phone, phone.key_fields).status == 200
    [event] = heard(world, opened, 1)
    assert event["push_key_id"] == phone.push_key_id and "push_token_id" not in event
    assert world.send({"request": "HOST notifications", "json": {"zulip": {"type": "test"}}}).status == 200
    assert [arrival["payload"]["opened"]["type"] for arrival in world.arrived(1)] == ["test"]


@RULES("sending")
def test_in_a_realm_that_requires_encryption_old_apps_get_nothing_and_stay_registered(world):
    world.prepare("fcm is registered")
    world.prepare("fcm2 is registered in clear")
    part = {"zulip": {"type": "test"}, "legacy": {"gcm_payload": {"event": "message"}}}
    world.running.require_encryption(True)
    try:
        assert world.send({"request": "HOST notifications", "json": part}).status == 200
        assert [arrival["to"] for arrival in world.arrived(1)] == ["fcm"]
    finally:
        world.running.require_encryption(False)
    assert world.send({"request": "HOST notifications", "json": part}).status == 200
    assert sorted(arrival["to"] for arrival in world.arrived(2)) == ["fcm", "fcm2"]


@RULES("user-auth-held-up")
@pytest.mark.option("wrong-keys")
@pytest.mark.settings(calls_per_address="1000000/60s")
def test_who_shows_too_many_wrong_keys_is_held_up_but_for_one_that_was_right(world):
    def call(user, key):
        return world.send({"request": "POST register_client_device", "headers": {
            "Authorization": "Basic " + encode(f"{user.email}:{key}".encode())}})

    assert call(world.alice, world.alice.key).status == 200
    assert [call(world.bob, f"{number:032d}").status for number in range(20)] == [401] * 20
    # A slow machine misses the first times for which each further one is held up.
    held = next(answer for number in range(20, 30) if (answer := call(world.bob, f"{number:032d}")).status != 401)
    assert (held.status, held.body["code"], held.body["msg"]) == (429, "RATE_LIMIT_HIT", "API usage exceeded rate limit")
    assert json.loads(held.bytes)["retry-after"] > 0
    assert call(world.alice, world.alice.key).status == 200
