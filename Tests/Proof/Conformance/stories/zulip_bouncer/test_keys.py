"""Keys that come and go: those that phones seal to, those of servers, and the one of Web Push."""

import pytest

from conformance import http, phones


def register(world, phone, key):
    """A registration that is sealed to that key."""
    world.__dict__["bouncer_key"] = key
    return world.server.register(phone)


@pytest.mark.rules("bouncer-keys", "e2ee-register-key-unknown")
def test_a_retired_key_still_opens_and_a_removed_one_ends_no_registration(world):
    first, second = world.running.bouncer_key(), world.running.add_bouncer_key()
    world.running.restart()
    assert register(world, world.fcm, second).status == 200
    assert register(world, world.apns, first).status == 200
    world.running.retire_bouncer_key(second)
    world.running.restart()
    assert register(world, world.fcm2, second).status == 200
    world.running.remove_bouncer_key(second)
    world.running.restart()
    refused = register(world, world.fcm3, second)
    # 429 while the node that has ended is still believed to have it.
    assert (refused.status, refused.body["code"]) in ((400, "INVALID_BOUNCER_PUBLIC_KEY"), (429, "RATE_LIMIT_HIT"))
    assert register(world, world.fcm3, first).status == 200
    names = ("apns", "fcm", "fcm2", "fcm3")
    told = world.server.notify(*(world.make_item(name) for name in names)).body
    assert (told["apple_successfully_sent_count"], told["android_successfully_sent_count"], told["delete_token_ids"]) == (1, 3, [])
    assert sorted(arrival["to"] for arrival in world.arrived(4)) == sorted(names)


@pytest.mark.rules("register-success", "differs-previous-key")
def test_the_previous_key_of_a_server_is_accepted_for_ten_minutes(world):
    server, former = world.server, world.server.key
    answer = world.send({"request": "POST /api/v1/remotes/server/register", "as": "nobody", "form": {
        "zulip_org_id": server.id, "zulip_org_key": former, "new_org_key": "n" * 64, "hostname": server.hostname, "contact_email": server.contact}})
    assert answer.status == 200, answer.body

    def status(key):
        server.key = key
        return server.call("GET", "server/analytics/status").status

    assert (status("n" * 64), status(former)) == (200, 200)
    world.running.restart_later(9 * 60)
    assert (status("n" * 64), status(former)) == (200, 200)
    world.running.restart_later(11 * 60)
    assert (status("n" * 64), status(former)) == (200, 401)


@pytest.mark.rules("deactivate-replaced-key")
@pytest.mark.option("replaced-keys")
def test_a_key_that_was_replaced_does_not_deactivate_its_server(world):
    server, former = world.server, world.server.key
    answer = world.send({"request": "POST /api/v1/remotes/server/register", "as": "nobody", "form": {
        "zulip_org_id": server.id, "zulip_org_key": former, "new_org_key": "n" * 64, "hostname": server.hostname, "contact_email": server.contact}})
    assert answer.status == 200, answer.body
    server.key = former
    answer = server.call("POST", "server/deactivate")
    assert (answer.status, answer.body["code"]) == (403, "KEY_REPLACED")
    server.key = "n" * 64
    assert server.call("GET", "server/analytics/status").status == 200
    assert server.call("POST", "server/deactivate").status == 200


@pytest.mark.rules("webpush-vapid")
@pytest.mark.option("web-push")
def test_the_key_of_web_push_never_changes(world):
    before = world.vapid
    world.running.restart()
    answer = http.send(world.running.url, "GET", "/api/v1/zulip-services/webpush/vapid", ca_file=world.running.ca_file)
    assert answer.body == {"result": "success", "msg": "", "vapid": before}


def upload(world, server):
    """A server names the realm of `world.server`."""
    return server.call("POST", "server/analytics", form=phones.upload(world.server.realm_item))


@pytest.mark.rules("realm-free", "differs-realms-change-hands")
@pytest.mark.option("realms-change-hands")
def test_a_realm_that_the_operator_has_let_go_is_the_next_servers(world):
    assert world.server.register(world.apns).status == 200
    assert upload(world, world.other).body["msg"].startswith("Duplicate registration detected.")
    world.running.release_realm(world.server.realm)
    # Whoever had it goes on naming it.
    assert upload(world, world.server).status == 200
    assert upload(world, world.other).status == 200
    answer = world.other.call("POST", "push/e2ee/notify", json={"realm_uuid": world.server.realm, "push_requests": [world.make_item("apns")]})
    assert answer.body["apple_successfully_sent_count"] == 1
    assert [arrival["to"] for arrival in world.arrived(1)] == ["apns"]
    assert upload(world, world.server).body["msg"].startswith("Duplicate registration detected.")


@pytest.mark.rules("realm-free", "differs-realms-change-hands")
@pytest.mark.option("realms-change-hands")
def test_nobody_has_come_for_a_realm_for_a_day(world):
    world.running.release_realm(world.server.realm)
    world.running.restart_later(25 * 3600)
    assert upload(world, world.other).body["msg"].startswith("Duplicate registration detected.")


@pytest.mark.rules("e2ee-register-success", "legacy-register-success")
def test_a_registration_outlives_the_end_of_the_program(world):
    assert world.server.register(world.apns).status == 200
    assert world.server.register_in_clear(world.fcm, world.user).status == 200
    world.running.kill()
    world.running.restart()
    assert world.server.notify(world.make_item("apns")).body["apple_successfully_sent_count"] == 1
    assert world.server.notify_in_clear(world.user, gcm_payload={"event": "message"}).body["total_android_devices"] == 1
    assert sorted(arrival["to"] for arrival in world.arrived(2)) == ["apns", "fcm"]


@pytest.mark.rules("ended-kept-expired")
def test_an_ended_registration_is_told_of_for_thirty_days(world):
    assert world.server.register(world.apns).status == 200
    world.simulator.answer(world.apns.address, 410, reason="Unregistered", times=1)

    def gone():
        return world.server.notify(world.make_item("apns")).body["delete_token_ids"]

    assert gone() == [world.apns.token_id]
    world.running.restart_later(29 * 86400)
    assert gone() == [world.apns.token_id]
    assert world.simulator.known([world.apns.address]) == []
