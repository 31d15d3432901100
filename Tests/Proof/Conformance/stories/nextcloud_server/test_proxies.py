"""What a server makes of its phones' proxies: slow ones, several, and what waits for them."""

import base64
import time

import pytest

from conformance import proxy
from conformance.limits import TIMEOUT
from conformance.nextcloud import verifies
from worlds.nextcloud_server import PUSH

RULES = pytest.mark.rules
HELLO = {"app": "spreed", "subject": "Hello"}
short_deadline = pytest.mark.settings(deadline="500ms")


def at(world, place):
    """Another proxy."""
    world.peer.answers[place] = []
    return f"{world.peer.url}/{place}"


def receipts(world, part):
    return {told["url"]: told for told in world.notify(part).body["nextcloud"]["proxies"]}


def requests(world, place, count):
    return world.peer.wait(place, lambda found: len(found) >= count)


@short_deadline
@RULES("sending-deadline")
def test_a_proxy_that_takes_its_time_is_not_waited_for_and_not_asked_twice(world):
    assert world.register(world.talk).status == 201
    world.peer.answers[world.place] = [(8, *proxy.TAKEN)]
    began = time.monotonic()
    [told] = receipts(world, {"nid": 1, **HELLO}).values()
    assert 0.4 < time.monotonic() - began < 7.8
    assert (told["status"], told["sent"], told["queued"]) == (None, 0, 1)
    # What a restart finds in the queue would be sent again, if nobody had been answered.
    assert [arrival["payload"]["nid"] for arrival in world.arrived(1)] == [1]


@RULES("request-body")
def test_proxies_are_asked_side_by_side(world):
    other = at(world, f"{world.place}-other")
    assert world.register(world.talk).status == 201
    assert world.register(world.talk2, proxyServer=other).status == 201
    for place in (world.place, f"{world.place}-other"):
        world.peer.answers[place] = [(6, *proxy.TAKEN)]
    assert {told["sent"] for told in receipts(world, {"nid": 1, **HELLO}).values()} == {1}
    first, second = requests(world, world.place, 1)[0], requests(world, f"{world.place}-other", 1)[0]
    assert abs(first["began"] - second["began"]) < 5.8


@RULES("subscription-key", "proxy-server")
@pytest.mark.settings(subscription_server="played", subscription_key="of-the-operator")
def test_the_key_of_a_subscription_goes_to_its_proxy_only(world):
    assert world.register(world.talk).status == 201
    assert world.register(world.talk2, proxyServer=f"{world.peer.url}/subscribed/").status == 201
    before = len(world.peer.requests["subscribed"])
    assert {told["sent"] for told in receipts(world, {"nid": 1, **HELLO}).values()} == {1}
    subscribed, other = requests(world, "subscribed", before + 1)[before], requests(world, world.place, 1)[0]
    assert subscribed["headers"]["x-nextcloud-subscription-key"] == "of-the-operator" and "x-nextcloud-subscription-key" not in other["headers"]
    # It was named with a slash at its end.
    assert subscribed["call"] == other["call"] == "notifications"


@RULES("draft-v3-push")
@pytest.mark.option("draft-of-2017")
@pytest.mark.settings(default_proxy="played")
def test_a_phone_that_names_no_proxy_has_the_operators(world):
    form = {"pushTokenHash": world.talk.hash, "devicePublicKey": world.talk.device_key}
    assert world.send({"request": "POST apps/notifications/api/v3/push", "as": "talk", "form": form}).status == 201
    before = len(world.peer.requests["default"])
    [told] = receipts(world, {"nid": 1, **HELLO}).values()
    assert (told["url"], told["sent"]) == (f"{world.peer.url}/default", 1)
    assert len(requests(world, "default", before + 1)) == before + 1


@RULES("request-body", "deletion-chunks", "stock-one-body")
def test_at_most_a_thousand_entries_make_a_request(world):
    for name in ("files", "files2"):
        assert world.register(getattr(world, name)).status == 201
    receipt = world.notify({"delete_nids": list(range(1, 601))}).body["nextcloud"]["proxies"][0]
    assert receipt["sent"] == 1200
    sizes = [len(proxy.entries(request)) for request in requests(world, world.place, 2)]
    assert max(sizes) <= 1000 and sum(sizes) == 1200 and len(sizes) == 2
    # Their texts are looked at in the other cases.
    world.expected = 1200


@RULES("answer-with-unknown")
def test_what_a_proxy_does_not_know_are_only_its_own_phones(world):
    other = at(world, f"{world.place}-other")
    assert world.register(world.talk).status == 201
    assert world.register(world.talk2, proxyServer=other).status == 201
    unknown = [world.talk.told["deviceIdentifier"], world.talk2.told["deviceIdentifier"]]
    world.peer.answers[world.place] = [(200, {"unknown": unknown, "failed": 1}), proxy.TAKEN]
    told = receipts(world, {"nid": 1, **HELLO})
    assert (told[world.proxy]["unknown"], told[other]["unknown"]) == (1, 0)
    assert list(receipts(world, {"nid": 2, **HELLO})) == [other]


@short_deadline
@RULES("answer-with-unknown")
def test_a_phone_that_has_registered_again_meanwhile_is_not_forgotten(world):
    assert world.register(world.talk).status == 201
    identifier = world.talk.told["deviceIdentifier"]
    world.peer.answers[world.place] = [(2, 200, {"unknown": [identifier], "failed": 1}), proxy.TAKEN]
    world.notify({"nid": 1, **HELLO})
    world.talk.token = "another" + world.talk.token
    assert world.register(world.talk).status == 201
    # The answer about the former registration comes before this is sent.
    requests(world, world.place, 1)
    time.sleep(2.2)
    assert receipts(world, {"nid": 2, **HELLO})[world.proxy]["sent"] == 1
    assert world.send({"request": f"DELETE {PUSH}", "as": "talk"}).status == 202


@RULES("one-per-app-password")
@pytest.mark.parametrize("changed", ["token", "key", "proxy"])
def test_what_waits_for_a_phone_goes_when_its_key_token_or_proxy_changes(world, changed):
    assert world.register(world.talk).status == 201
    world.peer.answers[world.place] = [(503, "later")]
    assert receipts(world, {"nid": 1, **HELLO})[world.proxy]["queued"] == 1
    other = at(world, f"{world.place}-other")
    changes = {
        "token": {"pushTokenHash": "a" * 128}, "key": {"devicePublicKey": world.make_garbled(world.talk.device_key)},
        "proxy": {"proxyServer": other}}[changed]
    if changed == "key":
        # One that opens nothing: no push could be made for it.
        from conformance.nextcloud import key, pem
        changes = {"devicePublicKey": pem(key("another device").public_key())}
    assert world.register(world.talk, **changes).status == 201
    assert world.register(world.talk).status == 201
    world.peer.answers[world.place] = []
    assert receipts(world, {"nid": 2, **HELLO})[world.proxy]["sent"] == 1
    assert [arrival["payload"]["nid"] for arrival in world.arrived(1)] == [2]
    assert not world.peer.requests[f"{world.place}-other"]


@RULES("sending-deadline")
def test_at_most_two_hundred_pushes_wait_for_a_phone(world):
    for name in ("files", "talk"):
        assert world.register(getattr(world, name)).status == 201
    world.peer.answers[world.place] = [(503, "later")]
    receipt = receipts(world, {"delete_nids": list(range(1, 202))})[world.proxy]
    # Of Talk's, which has them in chunks, all may wait.
    assert (receipt["queued"], receipt["failed"]) == (200 + 21, 1)
    for name in ("files", "talk"):
        assert world.send({"request": f"DELETE {PUSH}", "as": name}).status == 202


@RULES("answer-kept")
@pytest.mark.settings(max_age="2s", deadline="500ms")
def test_what_is_too_old_is_given_up(world):
    assert world.register(world.talk).status == 201
    world.peer.answers[world.place] = [(503, "later")]
    assert receipts(world, {"nid": 1, **HELLO})[world.proxy]["queued"] == 1
    time.sleep(2.5)
    world.peer.answers[world.place] = []
    # A proxy that has failed is left alone for a while.
    deadline = time.monotonic() + TIMEOUT
    number = 1
    while not (arrived := world.arrived(0)) and time.monotonic() < deadline:
        number += 1
        world.notify({"nid": number, **HELLO})
        time.sleep(0.5)
    assert arrived and all(arrival["payload"]["nid"] > 1 for arrival in arrived)


@RULES("subject-encryption", "user-key")
def test_of_several_accounts_on_a_phone_the_signature_tells_which_it_is_for(world):
    assert world.register(world.talk).status == 201
    told = world.send({"request": f"GET identityproof/key/{world.bob.login}", "as": "bob"})
    bob = told.body["ocs"]["data"]["public"]
    assert receipts(world, {"nid": 1, **HELLO})[world.proxy]["sent"] == 1
    [entry] = proxy.entries(requests(world, world.place, 1)[0])
    subject = base64.b64decode(entry["subject"])
    assert bob != world.talk.told["publicKey"] and not verifies(bob, entry["signature"], subject)
    assert verifies(world.talk.told["publicKey"], entry["signature"], subject)


@RULES("notification-list", "notification-exists")
def test_the_newest_hundred_are_listed(world):
    for number in range(1, 103):
        world.notify({"nid": number, "app": "files", "subject": "Hello"})
    listed = world.send({"request": "GET apps/notifications/api/v2/notifications"}).body["ocs"]["data"]
    assert [item["notification_id"] for item in listed] == list(range(102, 2, -1))


@RULES("notification-delete", "which-phones")
def test_the_other_phones_are_told_when_all_are_deleted(world):
    for name in ("talk", "files"):
        assert world.register(getattr(world, name)).status == 201
    world.notify({"nid": 1, **HELLO})
    assert world.send({"request": "DELETE apps/notifications/api/v2/notifications", "as": "talk"}).status == 200
    arrived = [(arrival["to"], arrival["payload"].get("delete-all")) for arrival in world.arrived(2)]
    assert arrived == [("talk", None), ("files", True)]
