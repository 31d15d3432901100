"""What a chat server does with the answers of its bouncer, which the suite plays."""

import json

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


def register(world, phone):
    answer = world.send({"request": "POST mobile_push/register", "form": phone.fields})
    assert answer.status == 200, answer.body


def answers(peer, phone, *told):
    peer.answers["push/e2ee/register", phone.token_id] = list(told)


def active(world, phone):
    world.until(lambda: phone.state["push_token_id"] == phone.token_id and phone.state["pending_push_token_id"] is None, phone.name)


def error(world, phone):
    world.until(lambda: phone.state["push_registration_error_code"], phone.name)
    assert phone.state["pending_push_token_id"] == phone.token_id and phone.state["push_token_id"] is None
    return phone.state["push_registration_error_code"]


@RULES("zulip/10.5/no-answer", "zulip/10.5/200", "zulip/10.2/pending_push_token_id", "zulip/10.2/push_token_last_updated_timestamp")
@pytest.mark.parametrize("first", [(0, ""), (503, "x"), refused("RATE_LIMIT_HIT", 429), (200, "no sense")])
def test_what_is_no_refusal_is_tried_again(world, peer, first):
    answers(peer, world.apns, first, success())
    register(world, world.apns)
    active(world, world.apns)
    assert world.apns.state["push_token_last_updated_timestamp"] > 1.7e9
    assert len(peer.told("push/e2ee/register", lambda form: form["token_id"] == world.apns.token_id)) == 2


@RULES("zulip/10.5/missing_remote_realm-the", "zulip/10.5/missing_remote_realm-again", "zulip/10.9/realms", "zulip/10.9/server-bouncer", "zulip/1.2/the-chat")
def test_a_missing_realm_is_uploaded_and_the_call_made_again(world, peer):
    before = len(peer.calls)
    answers(peer, world.apns, refused("MISSING_REMOTE_REALM", 403), success())
    register(world, world.apns)
    active(world, world.apns)
    calls = [call for call in peer.calls[before:] if call[0] == "server/analytics" or call[1].get("token_id") == world.apns.token_id]
    assert [name for name, _, _ in calls][-3:] == ["push/e2ee/register", "server/analytics", "push/e2ee/register"]
    _, form, headers = calls[-2]
    assert json.loads(form["realms"]) and json.loads(form["version"]) == "12.0" and form["api_feature_level"] == "483"
    assert headers["user-agent"] == "ZulipServer/12.0" and headers["authorization"].startswith("Basic ")


@RULES("zulip/10.5/missing_remote_realm-again")
@pytest.mark.parametrize("code", ["REMOTE_REALM_SERVER_MISMATCH_ERROR", "PUSH_NOTIFICATIONS_DISALLOWED", "INVALID_ZULIP_SERVER", "UNAUTHORIZED"])
def test_what_an_operator_mends_is_tried_again(world, peer, code):
    answers(peer, world.fcm, refused(code, 403), success())
    register(world, world.fcm)
    active(world, world.fcm)


@RULES("zulip/10.5/invalid_bouncer_public_key-request_expired", "zulip/10.5/any-other-4xx", "zulip/10.5/a-refused-token", "zulip/10.2/push_registration_error_code", "zulip/10.4/a-token")
@pytest.mark.parametrize("code, shown", [
    ("INVALID_BOUNCER_PUBLIC_KEY", "INVALID_BOUNCER_PUBLIC_KEY"), ("REQUEST_EXPIRED", "REQUEST_EXPIRED"), ("ANYTHING", "BAD_REQUEST")])
def test_a_refusal_is_shown_and_the_next_token_replaces_it(world, peer, code, shown):
    phone = world.fcm
    answers(peer, phone, refused(code))
    register(world, phone)
    assert error(world, phone) == shown
    answers(peer, phone, success())
    register(world, phone)
    active(world, phone)
    assert phone.state["push_registration_error_code"] is None


@RULES("zulip/10.4/a-token", "zulip/10.5/a-refused-token")
def test_while_a_token_is_pending_no_other_is_taken(world, peer):
    answers(peer, world.fcm, (503, ""))
    register(world, world.fcm)
    again = world.send({"request": "POST mobile_push/register", "form": world.fcm.fields})
    assert (again.status, again.body["msg"]) == (400, "A registration for the device already in progress.")
    # A kill loses nothing of it.
    world.running.kill()
    answers(peer, world.fcm, success())
    world.running.restart()
    active(world, world.fcm)


@RULES("zulip/10.6/no-answer", "zulip/10.6/5xx", "zulip/10.6/another-4xx", "zulip/10.7/post")
@pytest.mark.parametrize("told, status, code", [
    ((0, ""), 502, "FAILED_TO_CONNECT_BOUNCER"), ((500, ""), 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER"),
    ((429, "{}"), 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER"), (refused("X", 400), 403, "ADMIN_ACTION_REQUIRED")])
def test_what_a_refusal_is_to_a_client(world, peer, told, status, code):
    register(world, world.fcm)
    active(world, world.fcm)
    peer.answers["push/e2ee/notify", None] = [told]
    answer = world.send({"request": "POST mobile_push/e2ee/test_notification"})
    assert (answer.status, answer.body["code"]) == (status, code)


@RULES("zulip/10.6/ids", "zulip/10.3/an-event")
def test_a_token_that_the_bouncer_calls_dead_is_no_longer_active_which_is_an_event(world, peer):
    register(world, world.fcm)
    active(world, world.fcm)
    queue = world.send({"request": "POST register", "form": {"event_types": '["device"]'}}).body
    told = dict(bouncer.DEFAULTS["push/e2ee/notify"][1], delete_token_ids=[world.fcm.token_id])
    peer.answers["push/e2ee/notify", None] = [(200, told)]
    world.send({"request": "HOST notifications", "json": {"zulip": {"type": "test"}}})
    assert world.fcm.state["push_token_id"] is None
    events = world.send({"request": f"GET events?queue_id={queue['queue_id']}&last_event_id={queue['last_event_id']}"}).body["events"]
    assert [{**event, "id": 0} for event in events] == [
        {"type": "device", "op": "update", "device_id": world.fcm.device, "push_token_id": None, "id": 0}]


@RULES("zulip/8.2/when-the-bouncer", "zulip/8.2/the-bouncer-is-told")
def test_the_legacy_token_of_a_device_goes_when_the_encrypted_one_is_accepted(world, peer):
    phone = world.fcm
    assert world.send({"request": "POST users/me/android_gcm_reg_id", "form": {"token": phone.token}}).status == 200
    register(world, phone)
    active(world, phone)
    peer.told("push/unregister", lambda form: form.get("token") == phone.token)
    answer = world.send({"request": "POST mobile_push/test_notification", "form": {"token": phone.token}})
    assert answer.body["code"] == "INVALID_PUSH_DEVICE_TOKEN"


@RULES("zulip/10.8/when-a-user")
def test_another_api_key_ends_all_devices(world, peer):
    register(world, world.fcm)
    active(world, world.fcm)
    made = world.running.change_user(world.alice, api_key="a" * 32).body
    world.alice.authorization = world.make_basic(f"{world.alice.email}:{made.get('api_key', 'a' * 32)}")
    assert world.devices() == {}
