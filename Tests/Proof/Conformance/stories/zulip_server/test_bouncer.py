"""What a chat server does with the answers of its bouncer, which the suite plays."""

import email.utils
import json
import time

import pytest

from conformance import bouncer
from conformance.bouncer import refused, success

RULES = pytest.mark.rules
pytestmark = pytest.mark.settings(bouncer="played", web_push=True)


@pytest.fixture
def peer(world):
    made = bouncer.shared()
    made.answers.clear()
    # Phones seal to a key that only this bouncer would know.
    world.__dict__["bouncer_key"] = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="
    yield made
    made.answers.clear()


def register_in_clear(world, *tokens):
    for token in tokens:
        answer = world.send({"request": "POST users/me/android_gcm_reg_id", "form": {"token": token}})
        assert answer.status == 200, answer.body


def send(world, part={"zulip": {"type": "test"}}):
    """The host application sends a notification. Returns the calls of the bouncer that it brought about."""
    before = len(bouncer.shared().calls)
    assert world.send({"request": "HOST notifications", "json": part}).status == 200
    return [(call, form) for call, form, _ in bouncer.shared().calls[before:]]


def answers(peer, phone, *told):
    peer.answers["push/e2ee/register", phone.token_id] = list(told)


def error(world, phone):
    world.until(lambda: phone.state["push_registration_error_code"], phone.name)
    assert phone.state["pending_push_token_id"] == phone.token_id and phone.state["push_token_id"] is None
    return phone.state["push_registration_error_code"]


@RULES("pending-in-passing", "pending-taken", "device-pending-token-id", "device-token-updated")
@pytest.mark.parametrize("first", [(0, ""), (503, "x"), refused("RATE_LIMIT_HIT", 429), (200, "no sense")])
def test_what_is_no_refusal_is_tried_again(world, peer, first):
    answers(peer, world.apns, first, success())
    world.register(world.apns)
    assert world.apns.state["push_token_last_updated_timestamp"] > 1.7e9
    assert len(peer.told("push/e2ee/register", lambda form: form["token_id"] == world.apns.token_id)) == 2


@RULES("pending-retry-after")
@pytest.mark.parametrize("spelled", [lambda seconds: str(seconds), lambda seconds: f"{seconds - 0.5}",
                                     lambda seconds: email.utils.formatdate(time.time() + seconds + 1, usegmt=True)])
def test_the_next_try_comes_when_the_bouncer_wants_it(world, peer, spelled):
    # A pause of the server's own ends sooner.
    answers(peer, world.apns, (429, "", {"Retry-After": spelled(5)}), success())
    world.register(world.apns)
    first, second = (when for (_, form, _), when in zip(peer.calls, peer.times) if form.get("token_id") == world.apns.token_id)
    assert second - first > 4


@RULES("pending-missing-realm", "pending-in-passing-admin", "realms-uploaded", "bouncer-setting", "version")
def test_a_missing_realm_is_uploaded_and_the_call_made_again(world, peer):
    before = len(peer.calls)
    answers(peer, world.apns, refused("MISSING_REMOTE_REALM", 403), success())
    world.register(world.apns)
    calls = [call for call in peer.calls[before:] if call[0] == "server/analytics" or call[1].get("token_id") == world.apns.token_id]
    assert [name for name, _, _ in calls][-3:] == ["push/e2ee/register", "server/analytics", "push/e2ee/register"]
    _, form, headers = calls[-2]
    assert json.loads(form["realms"]) and json.loads(form["version"]) == "12.1" and form["api_feature_level"] == "500"
    assert headers["user-agent"] == "ZulipServer/12.1" and headers["authorization"].startswith("Basic ")


@RULES("pending-in-passing-admin")
@pytest.mark.parametrize("code", ["REMOTE_REALM_SERVER_MISMATCH_ERROR", "PUSH_NOTIFICATIONS_DISALLOWED", "INVALID_ZULIP_SERVER", "UNAUTHORIZED"])
def test_what_an_operator_mends_is_tried_again(world, peer, code):
    answers(peer, world.fcm, refused(code, 403), success())
    world.register(world.fcm)


@RULES("pending-error-code", "pending-bad-request", "pending-refused", "device-error-code", "push-register-token")
@pytest.mark.parametrize("code, shown", [
    ("INVALID_BOUNCER_PUBLIC_KEY", "INVALID_BOUNCER_PUBLIC_KEY"), ("REQUEST_EXPIRED", "REQUEST_EXPIRED"), ("ANYTHING", "BAD_REQUEST")])
def test_a_refusal_is_shown_and_the_next_token_replaces_it(world, peer, code, shown):
    phone = world.fcm
    answers(peer, phone, refused(code))
    world.register(phone, waits=False)
    assert error(world, phone) == shown
    answers(peer, phone, success())
    world.register(phone)
    assert phone.state["push_registration_error_code"] is None


@RULES("push-register-success", "push-register-token", "pending-refused")
def test_while_a_token_is_pending_no_other_is_taken(world, peer):
    answers(peer, world.fcm, (503, ""))
    world.register(world.fcm, waits=False)
    again = world.send({"request": "POST mobile_push/register", "form": world.fcm.fields})
    assert (again.status, again.body["msg"]) == (400, "A registration for the device already in progress.")
    # A kill loses nothing of it.
    world.running.kill()
    answers(peer, world.fcm, success())
    world.running.restart()
    world.wait(world.fcm)


@RULES("sending-no-answer", "sending-5xx", "sending-4xx", "test-device")
@pytest.mark.parametrize("told, status, code", [
    ((0, ""), 502, "FAILED_TO_CONNECT_BOUNCER"), ((500, ""), 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER"),
    ((429, "{}"), 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER"), (refused("X", 400), 403, "ADMIN_ACTION_REQUIRED")])
def test_what_a_refusal_is_to_a_client(world, peer, told, status, code):
    world.register(world.fcm)
    peer.answers["push/e2ee/notify", None] = [told]
    answer = world.send({"request": "POST mobile_push/e2ee/test_notification"})
    assert (answer.status, answer.body["code"]) == (status, code)


@RULES("sending-deleted-ids", "device-event")
def test_a_token_that_the_bouncer_calls_dead_is_no_longer_active_which_is_an_event(world, peer):
    world.register(world.fcm)
    queue = world.send({"request": "POST register", "form": {"event_types": '["device"]'}}).body
    told = dict(bouncer.DEFAULTS["push/e2ee/notify"][1], delete_token_ids=[world.fcm.token_id])
    peer.answers["push/e2ee/notify", None] = [(200, told)]
    send(world)
    assert world.fcm.state["push_token_id"] is None
    events = world.send({"request": f"GET events?queue_id={queue['queue_id']}&last_event_id={queue['last_event_id']}"}).body["events"]
    assert [{**event, "id": 0} for event in events] == [
        {"type": "device", "op": "update", "device_id": world.fcm.device, "push_token_id": None, "id": 0}]


@RULES("pending-taken", "migration-same-device", "migration-told")
def test_the_legacy_token_of_a_device_goes_when_the_encrypted_one_is_accepted(world, peer):
    phone = world.fcm
    register_in_clear(world, phone.token)
    world.register(phone)
    peer.told("push/unregister", lambda form: form.get("token") == phone.token)
    answer = world.send({"request": "POST mobile_push/test_notification", "form": {"token": phone.token}})
    assert answer.body["code"] == "INVALID_PUSH_DEVICE_TOKEN"


@RULES("old-app-new-api-key")
def test_another_api_key_ends_all_devices(world, peer):
    world.register(world.fcm)
    made = world.running.change_user(world.alice, api_key="a" * 32).body
    world.alice.authorization = world.make_basic(f"{world.alice.email}:{made.get('api_key', 'a' * 32)}")
    assert world.devices() == {}


@RULES("push-register-pending", "push-register-key-alone", "device-pending-token-id")
def test_while_another_token_is_pending_the_active_one_stays_in_use(world, peer):
    phone = world.fcm
    answers(peer, phone, success())
    world.register(phone)
    former = phone.token_id
    del phone.__dict__["box"]
    phone.token += "-new"
    answers(peer, phone, (503, ""))
    world.register(phone, waits=False)
    assert (phone.state["push_token_id"], phone.state["pending_push_token_id"]) == (former, phone.token_id)
    # Its key may change meanwhile.
    phone.push_key_id += 1
    answer = world.send({"request": "POST mobile_push/register", "form": {"device_id": phone.device, **phone.key_fields}})
    assert answer.status == 200 and phone.state["push_key_id"] == phone.push_key_id
    [asked] = [form for name, form in send(world) if name == "push/e2ee/notify"]
    assert [item["token_id"] for item in asked["push_requests"]] == [former]
    answers(peer, phone, success())
    world.wait(phone)


@RULES("push-register-same-token")
def test_the_same_token_is_registered_again_after_thirty_days_only(world, peer):
    phone = world.fcm

    def told():
        return len(peer.told("push/e2ee/register", lambda form: form["token_id"] == phone.token_id))

    answers(peer, phone, success())
    world.register(phone)
    world.running.restart_later(29 * 86400)
    world.register(phone)
    assert told() == 1
    world.running.restart_later(31 * 86400)
    world.register(phone, waits=False)
    peer.told("push/e2ee/register", lambda form: form["token_id"] == phone.token_id, count=2)
    world.wait(phone)
    assert told() == 2


@RULES("pending-missing-realm")
def test_a_realm_that_cannot_be_uploaded_stays_missing(world, peer):
    answers(peer, world.apns, refused("MISSING_REMOTE_REALM", 403), refused("MISSING_REMOTE_REALM", 403), success())
    peer.answers["server/analytics", None] = [(503, "")]
    world.register(world.apns, waits=False)
    peer.told("push/e2ee/register", lambda form: form["token_id"] == world.apns.token_id, count=2)
    assert world.apns.state["pending_push_token_id"] == world.apns.token_id
    peer.answers.pop(("server/analytics", None))
    world.wait(world.apns)


@RULES("pending-missing-realm")
@pytest.mark.parametrize("told, status, code", [
    (refused("BAD_REQUEST"), 403, "ADMIN_ACTION_REQUIRED"), ((503, ""), 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER")])
def test_a_call_is_what_the_upload_of_its_realm_is(world, peer, told, status, code):
    world.register(world.fcm)
    peer.answers["push/e2ee/notify", None] = [refused("MISSING_REMOTE_REALM", 403)]
    peer.answers["server/analytics", None] = [told]
    answer = world.send({"request": "POST mobile_push/e2ee/test_notification"})
    assert (answer.status, answer.body["code"]) == (status, code)


@RULES("migration-same-device")
@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_the_legacy_token_of_an_iphone_goes_in_either_case(world, peer, spelling):
    phone = world.apns
    phone.token = spelling(phone.token)
    legacy = phone.token.swapcase()
    assert world.send({"request": "POST users/me/apns_device_token", "form": {"token": legacy, "appid": phone.app_id}}).status == 200
    world.register(phone)
    peer.told("push/unregister", lambda form: form.get("token", "").lower() == legacy.lower())
    answer = world.send({"request": "POST mobile_push/test_notification", "form": {"token": legacy}})
    assert answer.body["code"] == "INVALID_PUSH_DEVICE_TOKEN"


@RULES("migration-told", "old-app-remove")
def test_the_bouncer_is_told_until_it_knows(world, peer):
    token = world.fcm.token
    register_in_clear(world, token)
    peer.answers["push/unregister", None] = [(503, ""), success()]
    assert world.send({"request": "DELETE users/me/android_gcm_reg_id", "form": {"token": token}}).status == 200
    peer.told("push/unregister", lambda form: form.get("token") == token, count=2)


@RULES("migration-legacy-first", "sending", "sending-too-large", "sending-deleted-ids")
def test_old_apps_come_first_and_all_new_ones_in_one_call(world, peer):
    world.register(world.fcm)
    world.register(world.apns)
    old, gone = world.fcm2.token, world.fcm3.token
    register_in_clear(world, old, gone)
    told = dict(bouncer.DEFAULTS["push/notify"][1], deleted_devices={"android_devices": [gone], "apple_devices": []})
    peer.answers["push/notify", None] = [(200, told)]
    part = {"zulip": {"type": "test"}, "legacy": {"gcm_payload": {"event": "message"}}}
    calls = [(name, form) for name, form in send(world, part) if name in ("push/notify", "push/e2ee/notify")]
    assert [name for name, _ in calls] == ["push/notify", "push/e2ee/notify"]
    assert sorted(calls[0][1]["android_devices"]) == sorted([old, gone])
    assert sorted(item["token_id"] for item in calls[1][1]["push_requests"]) == sorted([world.fcm.token_id, world.apns.token_id])
    # The server removes tokens that the bouncer reports as gone.
    assert [form for name, form in send(world, part) if name == "push/notify"][-1]["android_devices"] == [old]


@RULES("test-device")
def test_a_test_of_what_the_bouncer_does_not_know(world, peer):
    world.register(world.fcm)
    peer.answers["push/e2ee/notify", None] = [(200, dict(bouncer.DEFAULTS["push/e2ee/notify"][1], delete_token_ids=[world.fcm.token_id]))]
    answer = world.send({"request": "POST mobile_push/e2ee/test_notification"})
    assert (answer.status, answer.body["code"]) == (400, "NO_ACTIVE_PUSH_DEVICE")


@RULES("old-app-register")
@pytest.mark.parametrize("told, status, msg", [
    (refused("BAD_REQUEST", 400, "The bouncer's words."), 400, "The bouncer's words."),
    ((503, ""), 502, "Internal server error on Zulip push notification service, retry later."),
    ((0, ""), 502, "Network error while connecting to Zulip push notification service.")])
def test_a_legacy_token_that_the_bouncer_does_not_take_stays(world, peer, told, status, msg):
    token = world.fcm.token
    peer.answers["push/register", None] = [told]
    answer = world.send({"request": "POST users/me/android_gcm_reg_id", "form": {"token": token}})
    assert (answer.status, answer.body["msg"]) == (status, msg)
    peer.answers.clear()
    # The bouncer is asked about it, as it is the user's.
    assert world.send({"request": "POST mobile_push/test_notification", "form": {"token": token}}).status == 200


@RULES("old-app-remove")
def test_a_legacy_token_that_is_not_here_is_asked_for_at_the_bouncer(world, peer):
    def delete():
        return world.send({"request": "DELETE users/me/android_gcm_reg_id", "form": {"token": world.fcm.token}})

    assert delete().status == 200
    peer.answers["push/unregister", None] = [refused("BAD_REQUEST", 400, "Token does not exist")]
    answer = delete()
    assert (answer.status, answer.body["msg"]) == (400, "Token does not exist")


@RULES("old-app-test")
def test_a_test_of_a_legacy_token_that_the_bouncer_does_not_know(world, peer):
    tokens = sorted([world.fcm.token, world.fcm2.token])
    register_in_clear(world, *tokens)
    before = len(peer.calls)
    assert world.send({"request": "POST mobile_push/test_notification"}).status == 200
    assert sorted(form["token"] for name, form, _ in peer.calls[before:] if name == "push/test_notification") == tokens
    peer.answers["push/test_notification", None] = [refused("INVALID_REMOTE_PUSH_DEVICE_TOKEN", 400, "The bouncer's words.")]
    answer = world.send({"request": "POST mobile_push/test_notification", "form": {"token": tokens[0]}})
    assert (answer.status, answer.body["code"], answer.body["msg"]) == (400, "INVALID_REMOTE_PUSH_DEVICE_TOKEN", "The bouncer's words.")


@RULES("realms-uploaded")
def test_a_realm_that_has_changed_is_uploaded_until_the_bouncer_has_taken_or_refused_it(world, peer):
    assert world.alice.key
    peer.answers["server/analytics", None] = [(503, "", {"Retry-After": "3"}), (0, ""), success(realms={})]

    def uploads():
        return [when for (name, _, _), when in zip(peer.calls, peer.times) if name == "server/analytics"]

    before = len(uploads())
    world.running.rename_realm("Another name")
    peer.told("server/analytics", lambda form: "Another name" in form["realms"], count=3)
    first, second, _ = uploads()[before:]
    assert second - first > 3
    peer.answers["server/analytics", None] = [refused("BAD_REQUEST", 400, "No.")]
    world.running.rename_realm("A third name")
    peer.told("server/analytics", lambda form: "A third name" in form["realms"])
    # One that had not been answered would be tried again after a second.
    time.sleep(2.5)
    assert len(uploads()) - before == 4
    peer.answers.clear()
    world.running.rename_realm("Conformance")
    peer.told("server/analytics", lambda form: '"Conformance"' in form["realms"])
