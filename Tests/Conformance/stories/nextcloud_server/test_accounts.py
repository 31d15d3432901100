"""Stories of accounts and phones: the login flow, several accounts, new keys and tokens, restarts."""

import base64
import hashlib
import html
import re
import urllib.parse

import pytest

from conformance import http
from conformance.nextcloud import php, verifies_digest
from worlds.nextcloud_server import PUSH, basic

RULES = pytest.mark.rules


def browse(world, url, form=None):
    """What a browser without scripts sees, at the address where the server really is."""
    path = urllib.parse.urlsplit(url).path
    answer = http.send(
        world.running.url, "GET" if form is None else "POST", path, {"Content-Type": "application/x-www-form-urlencoded"},
        None if form is None else urllib.parse.urlencode(form).encode(), world.running.ca_file)
    return answer.status, answer.bytes.decode()


def open_flow(world, path="/index.php/login/v2"):
    answer = world.send({"request": f"POST {path}", "as": "nobody", "headers": {"User-Agent": "App <1>"}})
    assert answer.status == 200 and answer.body.keys() == {"poll", "login"} and answer.body["poll"].keys() == {"token", "endpoint"}, answer.body
    return answer.body


@RULES("nextcloud/5.5/post-index-php", "nextcloud/5.5/get-the-url", "nextcloud/5.5/post-the-endpoint", "nextcloud/5.5/a-flow-is-open")
def test_a_person_lets_an_app_in_and_it_gets_an_app_password_once(world):
    user = world.alice
    flow = open_flow(world)
    assert re.fullmatch("[A-Za-z0-9]{128}", flow["poll"]["token"]) and flow["poll"]["token"] not in flow["login"]

    def poll():
        return browse(world, flow["poll"]["endpoint"], {"token": flow["poll"]["token"]})

    assert poll() == (404, "[]") or poll()[1].strip() == "[]"
    status, page = browse(world, flow["login"])
    assert status == 200 and html.escape("App <1>") in page and "<script" not in page
    assert browse(world, flow["login"], {"login": user.login, "key": "x" * 32})[0] == 403
    status, page = browse(world, flow["login"], {"login": user.email, "key": user.key})
    proof = re.search(r'name="proof" value="([^"]+)"', page)
    assert status == 200 and proof, page
    assert poll()[0] == 404
    assert browse(world, flow["login"], {"proof": "x" + html.unescape(proof[1])})[0] >= 400
    assert browse(world, flow["login"], {"proof": html.unescape(proof[1])})[0] == 200
    path = urllib.parse.urlsplit(flow["poll"]["endpoint"]).path
    answer = world.send({"request": f"POST {path}", "as": "nobody", "form": {"token": flow["poll"]["token"]}})
    assert answer.status == 200 and answer.body.keys() == {"server", "loginName", "appPassword"} and answer.body["loginName"] == user.login
    assert poll()[0] == 404
    asked = world.send({"request": "GET cloud/user", "as": "nobody", "headers": {"Authorization": basic(user.login, answer.body["appPassword"])}})
    assert asked.status == 200 and asked.body["ocs"]["data"]["id"] == user.login


@RULES("nextcloud/2.2/the-server-builds", "nextcloud/2.2/the-proxy-does", "nextcloud/2.1/deviceidentifier", "nextcloud/5.3/the-user-key", "nextcloud/1/user-key")
def test_a_phone_can_check_who_it_is(world):
    password, number = world.talk.password_and_id
    assert world.register(world.talk).status == 201
    told = world.talk.told
    digest = base64.b64decode(told["deviceIdentifier"], validate=True)
    assert verifies_digest(told["publicKey"], told["signature"], digest)
    assert len(told["publicKey"]) == 451 and len(told["signature"]) == 344
    hosts = {"localhost:8080", urllib.parse.urlsplit(world.running.url).netloc}
    assert digest in {hashlib.sha512(php([f"{world.alice.login}@{host}", number]).encode()).digest() for host in hosts}


@RULES("nextcloud/5.3/there-is-one", "nextcloud/6.3/a-notification")
def test_a_phone_that_has_signed_in_anew_leaves_nothing_of_itself_behind(world):
    assert world.register(world.talk).status == 201
    world.talk2.token = world.talk.token
    assert world.register(world.talk2).status == 201
    assert world.notify({"nid": 1, "app": "spreed", "subject": "Hello"}).body["nextcloud"]["devices"] == 1
    assert [arrival["to"] for arrival in world.arrived(1)] == ["talk2"]
    assert world.send({"request": f"DELETE {PUSH}", "as": "talk"}).status == 200


@RULES("nextcloud/5.3/there-is-one", "nextcloud/5.3/the-user-key", "nextcloud/6.5/5xx", "nextcloud/6.5/the-caller")
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


@RULES("nextcloud/6.5/the-caller", "nextcloud/6.5/5xx")
def test_a_deletion_removes_what_waits_and_has_become_pointless(world):
    world.peer.answers[world.place] = [(503, "later")]
    assert world.register(world.talk).status == 201
    world.notify({"nid": 1, "app": "spreed", "subject": "Hello"})
    world.notify({"nid": 2, "app": "spreed", "subject": "Hello"})
    world.notify({"delete_nids": [1]})
    world.peer.answers[world.place] = []
    arrived = world.arrived(2)
    assert {arrival["payload"]["nid"] for arrival in arrived if "delete" not in arrival["payload"]} == {2}


@RULES("nextcloud/6.6/5xx", "nextcloud/6.6/what-is-kept", "nextcloud/5.6/there-is-one")
def test_what_a_push_service_cannot_take_arrives_later(world):
    assert world.subscribe(world.web).status == 202
    with world.simulator.faults(webpush={"outage": True}):
        receipt = world.notify({"nid": 1, "app": "spreed", "subject": "Hello"}).body["nextcloud"]["proxies"][0]
        assert (receipt["status"], receipt["queued"]) == (None, 1)
    assert [arrival["payload"]["nid"] for arrival in world.web_arrived(1)] == [1]
