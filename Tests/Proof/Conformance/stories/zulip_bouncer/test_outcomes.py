"""The outcomes of a notification, and of a registration."""

import time

import pytest



# Where nothing but waiting could be seen until a request's time is up.
short_deadline = pytest.mark.settings(deadline="500ms")


def notify(world, *names):
    answer = world.server.notify(*(world.make_item(name) for name in names))
    assert answer.status == 200, answer.body
    return answer.body


def came(world, count):
    return sorted(arrival["to"] for arrival in world.arrived(count))


@pytest.fixture
def phones(world):
    for phone in (world.apns, world.fcm):
        assert world.server.register(phone).status == 200


@short_deadline
@pytest.mark.option("outbox")
@pytest.mark.rules("promise", "differs-counts", "sent-counts", "ended-by-provider")
def test_what_providers_cannot_take_now_arrives_once_they_can(world, phones):
    with world.simulator.outage():
        told = notify(world, "apns", "fcm")
        assert (told["apple_successfully_sent_count"], told["android_successfully_sent_count"], told["delete_token_ids"]) == (0, 0, [])
    assert came(world, 2) == ["apns", "fcm"]
    notify(world, "apns", "fcm")
    assert came(world, 2) == ["apns", "fcm"]


@short_deadline
@pytest.mark.option("outbox")
@pytest.mark.rules("promise", "differs-counts")
def test_what_a_provider_answers_too_late_is_not_sent_a_second_time(world, phones):
    world.simulator.answer(world.apns.address, 200, delay_ms=2500, times=1)
    started = time.monotonic()
    assert notify(world, "apns", "fcm")["apple_successfully_sent_count"] == 0
    assert came(world, 2) == ["apns", "fcm"]
    # Once the late answer is there, whose connection may not be lost before, only what is new comes.
    time.sleep(max(0, started + 2.6 - time.monotonic()))
    notify(world, "apns")
    assert came(world, 1) == ["apns"]


@pytest.mark.option("outbox")
@pytest.mark.rules("e2ee-register-success", "promise", "outbox")
@pytest.mark.settings(deadline="800ms")
def test_what_was_promised_outlives_the_end_of_the_program(world, phones):
    with world.simulator.outage():
        notify(world, "apns", "fcm")
        world.running.kill()
    world.running.restart()
    assert came(world, 2) == ["apns", "fcm"]


@short_deadline
@pytest.mark.option("outbox")
@pytest.mark.rules("apns-request", "outbox")
def test_an_answer_that_is_lost_repeats_the_notification_under_the_same_id(world, phones):
    with world.simulator.faults(apns={"lose_answer_every": 1}):
        notify(world, "apns")
        world.simulator.wait([world.apns.address], 1)
    found = world.simulator.wait([world.apns.address], 2)
    assert len({delivery["headers"]["apns-id"] for delivery in found}) == 1
    # How often it comes depends on when the fault ended.
    world.phones.pop("apns")


@pytest.mark.option("outbox")
@pytest.mark.settings(max_age="4s", deadline="500ms")
@pytest.mark.rules("outbox")
def test_what_is_too_old_is_given_up(world, phones):
    new = world.make_item(["apns", {"payload": {"push_key_id": 11, "encrypted_data": "bmV3"}}])
    with world.simulator.outage():
        # Each is tried again at a time of its own, so that some would come before the new one.
        notify(world, *["apns"] * 20)
        time.sleep(4.5)
        assert world.server.notify(new).status == 200
    assert [arrival["payload"]["push_key_id"] for arrival in world.arrived(1)] == [11]


@pytest.mark.rules("ended-kept-expired", "delete-token-ids")
def test_a_dead_registration_is_told_of_with_each_notification(world, phones):
    world.simulator.answer(world.apns.address, 410, reason="Unregistered")
    for _ in range(3):
        assert notify(world, "apns", "fcm")["delete_token_ids"] == [world.apns.token_id]
    # It is asked for once only.
    assert len(world.simulator.deliveries([world.apns.address], accepted=False)) == 1
    assert came(world, 3) == ["fcm"] * 3


@pytest.mark.option("web-push")
@pytest.mark.rules("webpush-request", "delete-token-ids")
def test_a_subscription_of_another_key_ends_where_another_phone_gets_its_notifications(world):
    for phone in (world.web, world.web2):
        assert world.server.register(phone).status == 200
    world.simulator.answer(world.web.address, 403)
    told = []
    while len(told) < 60 and not any(told):
        told.append(notify(world, "web", "web2")["delete_token_ids"])
        time.sleep(0.5)
    assert told[:2] == [[], []] and told[-1] == [world.web.token_id]
    assert came(world, len(told)) == ["web2"] * len(told)


@pytest.mark.option("expired-lives-again")
@pytest.mark.rules("e2ee-register-success", "differs-expired-lives-again")
def test_an_expired_registration_that_is_registered_again_lives_again(world, phones):
    world.simulator.answer(world.apns.address, 410, reason="Unregistered", times=1)
    assert notify(world, "apns")["delete_token_ids"] == [world.apns.token_id]
    assert world.server.register(world.apns).status == 200
    assert notify(world, "apns")["apple_successfully_sent_count"] == 1
    assert came(world, 1) == ["apns"]


@pytest.mark.option("guard")
@pytest.mark.rules("ended-by-provider", "differs-doubted-deaths")
@pytest.mark.settings(max_age="1h")
def test_refusals_that_a_wrong_credential_brings_about_end_no_registration(world):
    names = [f"apns{number}" for number in range(1, 13)]
    for name in names:
        assert world.server.register(getattr(world, name)).status == 200
    with world.simulator.faults(apns={"status": 400, "reason": "BadDeviceToken"}):
        assert notify(world, *names)["delete_token_ids"] == []
    told = notify(world, *names)
    assert (told["apple_successfully_sent_count"], told["delete_token_ids"]) == (12, [])
    assert came(world, 12) == sorted(names)


@short_deadline
@pytest.mark.option("outbox")
@pytest.mark.rules("ended-by-provider", "promise")
@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 503}, {"status": 429, "retry_after": "1"}, {"drop_every": 1}, {"rst_every": 1}, {"html": True}],
                         ids=lambda fault: " ".join(f"{name} {value}" for name, value in fault.items()))
def test_errors_of_a_provider_end_no_registration(world, phones, fault):
    with world.simulator.faults(fcm=fault):
        told = notify(world, "fcm")
        assert (told["android_successfully_sent_count"], told["delete_token_ids"]) == (0, [])
    assert came(world, 1) == ["fcm"]


@pytest.mark.option("guard")
@pytest.mark.rules("ended-kept-expired")
@pytest.mark.parametrize("kind", ["apns", "fcm"])
def test_a_legacy_token_that_is_dead_goes_everywhere(world, kind):
    phone, another = getattr(world, kind), {"user_id": 11, "user_uuid": world.uuid}
    assert world.other.register_in_clear(phone, another).status == 200
    assert world.server.register_in_clear(phone, world.user).status == 200
    world.simulator.answer(phone.address, 410 if kind == "apns" else 404, times=1)
    payloads = {"apns_payload": {"alert": "Hi"}, "gcm_payload": {"event": "message"}}
    assert world.server.notify_in_clear(world.user, **payloads).status == 200
    told = world.other.notify_in_clear(another, **payloads).body
    assert (told["total_apple_devices"], told["total_android_devices"]) == (0, 0)


@pytest.mark.option("outbox")
@pytest.mark.settings(notifications_per_server="2/1s")
@pytest.mark.rules("pace", "rate-notifications", "differs-queued")
def test_what_is_over_the_pace_is_sent_at_the_pace(world, phones):
    assert notify(world, *["fcm"] * 6)["android_successfully_sent_count"] <= 2
    assert came(world, 6) == ["fcm"] * 6


@pytest.mark.option("outbox")
@pytest.mark.settings(notifications_per_server="2/60s")
@pytest.mark.rules("pace", "e2ee-notify-errors")
def test_more_than_fifteen_windows_of_it_are_refused(world, phones):
    # One device may have a hundred of them.
    assert notify(world, *["fcm"] * 33)["android_successfully_sent_count"] == 2
    answer = world.server.notify(world.make_item("fcm"))
    assert (answer.status, answer.body["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert answer.body["msg"] == "Too many notifications are waiting already" and int(answer.header("Retry-After")) > 0


@short_deadline
@pytest.mark.option("outbox")
@pytest.mark.rules("pace-device", "limit-outbox")
def test_a_device_has_at_most_a_hundred_notifications_waiting(world, phones):
    with world.simulator.outage():
        for _ in range(2):
            notify(world, *["fcm"] * 55)
        notify(world, "apns")
    assert came(world, 101) == ["apns"] + ["fcm"] * 100


@short_deadline
@pytest.mark.option("nothing-twice")
@pytest.mark.rules("migration-outbox", "migration-before-sending")
def test_what_waits_for_a_legacy_registration_is_delivered_as_the_encrypted_ones(world):
    phone = world.fcm
    assert world.server.register_in_clear(phone, world.user).status == 200
    with world.simulator.outage():
        assert world.server.notify_in_clear(world.user, gcm_payload={"event": "message"}).body["total_android_devices"] == 1
        assert world.server.register(phone).status == 200
        assert world.server.notify_in_clear(world.user, gcm_payload={"event": "message"}).body["total_android_devices"] == 0
    assert came(world, 1) == ["fcm"]


@short_deadline
@pytest.mark.rules("legacy-register-success")
@pytest.mark.option("outbox")
def test_what_waits_under_a_users_number_is_delivered_under_the_uuid(world):
    phone = world.fcm
    form = {"token": phone.token, "token_kind": 2}
    assert world.server.call("POST", "push/register", form={"user_id": 10, **form}).status == 200
    with world.simulator.outage():
        world.server.call("POST", "push/notify", json={"user_id": 10, "gcm_payload": {"event": "message"}})
        assert world.server.call("POST", "push/register", form={**world.user, **form}).status == 200
    assert came(world, 1) == ["fcm"]


