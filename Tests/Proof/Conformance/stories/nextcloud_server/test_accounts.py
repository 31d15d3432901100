"""Stories of phones: several accounts, new keys and tokens, restarts."""

import base64
import hashlib
import urllib.parse

import pytest

from conformance.nextcloud import php, verifies_digest
from worlds.nextcloud_server import PUSH

RULES = pytest.mark.rules


@RULES("user-public-key", "identifier-text", "identifier-is-digest", "device-identifier", "user-key-kept", "user-key")
def test_a_phone_can_check_who_it_is(world):
    password, number = world.talk.password_and_id
    assert world.register(world.talk).status == 201
    told = world.talk.told
    digest = base64.b64decode(told["deviceIdentifier"], validate=True)
    assert verifies_digest(told["publicKey"], told["signature"], digest)
    assert len(told["publicKey"]) == 451 and len(told["signature"]) == 344
    hosts = {"localhost:8080", urllib.parse.urlsplit(world.running.url).netloc}
    assert digest in {hashlib.sha512(php([f"{world.alice.login}@{host}", number]).encode()).digest() for host in hosts}


@RULES("one-per-app-password", "which-phones")
def test_a_phone_that_has_signed_in_anew_leaves_nothing_of_itself_behind(world):
    assert world.register(world.talk).status == 201
    world.talk2.token = world.talk.token
    assert world.register(world.talk2).status == 201
    assert world.notify({"nid": 1, "app": "spreed", "subject": "Hello"}).body["nextcloud"]["devices"] == 1
    assert [arrival["to"] for arrival in world.arrived(1)] == ["talk2"]
    assert world.send({"request": f"DELETE {PUSH}", "as": "talk"}).status == 200


@RULES("user-key-kept", "answer-kept", "sending-deadline")
def test_kill_9_loses_neither_registrations_nor_keys_nor_what_waits(world):
    world.peer.answers[world.place] = [(503, "later")]
    assert world.register(world.talk).status == 201
    key = world.talk.told["publicKey"]
    assert world.notify({"nid": 1, "app": "spreed", "subject": "Hello"}).body["nextcloud"]["proxies"][0]["queued"] == 1
    world.running.kill()
    world.peer.answers[world.place] = []
    world.running.restart()
    assert [arrival["payload"]["nid"] for arrival in world.arrived(1)] == [1]
    answer = world.register(world.talk)
    assert answer.status == 200 and world.talk.told["publicKey"] == key


@RULES("sending-deadline", "answer-kept")
def test_a_deletion_removes_what_waits_and_has_become_pointless(world):
    world.peer.answers[world.place] = [(503, "later")]
    assert world.register(world.talk).status == 201
    world.notify({"nid": 1, "app": "spreed", "subject": "Hello"})
    world.notify({"nid": 2, "app": "spreed", "subject": "Hello"})
    world.notify({"delete_nids": [1]})
    world.peer.answers[world.place] = []
    arrived = world.arrived(2)
    assert {arrival["payload"]["nid"] for arrival in arrived if "delete" not in arrival["payload"]} == {2}


@RULES("webpush-5xx", "webpush-outbox")
def test_what_a_push_service_cannot_take_arrives_later(world):
    assert world.subscribe(world.web).status == 202
    with world.simulator.faults(webpush={"outage": True}):
        receipt = world.notify({"nid": 1, "app": "spreed", "subject": "Hello"}).body["nextcloud"]["proxies"][0]
        assert (receipt["status"], receipt["queued"]) == (None, 1)
    assert [arrival["payload"]["nid"] for arrival in world.web_arrived(1)] == [1]
