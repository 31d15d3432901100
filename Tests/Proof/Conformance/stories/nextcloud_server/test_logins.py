"""Apps that sign in, and wrong passwords."""

import base64
import hashlib
import html
import re
import urllib.parse

import pytest

from conformance import http
from conformance.phones import basic
from worlds.nextcloud_server import PUSH

RULES = pytest.mark.rules


def browse(world, url, form=None):
    """What a browser without scripts gets, at the address where the server really is."""
    return http.send(
        world.running.url, "GET" if form is None else "POST", urllib.parse.urlsplit(url).path,
        {"Content-Type": "application/x-www-form-urlencoded"}, None if form is None else urllib.parse.urlencode(form).encode(),
        world.running.ca_file)


def open_flow(world, path="/index.php/login/v2"):
    answer = world.send({"request": f"POST {path}", "as": "nobody", "headers": {"User-Agent": "App <1>"}})
    assert answer.status == 200 and answer.body.keys() == {"poll", "login"} and answer.body["poll"].keys() == {"token", "endpoint"}, answer.body
    return answer.body


def poll(world, flow):
    answer = browse(world, flow["poll"]["endpoint"], {"token": flow["poll"]["token"]})
    assert answer.status in (200, 404) and (answer.status == 200 or answer.body == []), answer
    return answer.body or None


def proof(world, flow, user):
    """Signs in and returns the fields of the form for "yes"."""
    answer = browse(world, flow["login"], {"login": user.email, "key": user.key})
    found = re.search(r'name="proof" value="([^"]+)"', answer.bytes.decode())
    assert answer.status == 200 and found, answer
    return html.unescape(found[1])


@RULES("login-start", "login-page", "login-poll", "login-flow")
@pytest.mark.parametrize("path", ["/index.php/login/v2", "/login/v2"])
def test_a_person_lets_an_app_in_and_it_gets_an_app_password_once(world, path):
    user = world.alice
    flow = open_flow(world, path)
    secret = flow["login"].split("/")[-1]
    assert all(re.fullmatch("[A-Za-z0-9]{128}", text) for text in (flow["poll"]["token"], secret)) and flow["poll"]["token"] != secret
    assert poll(world, flow) is None
    page = browse(world, flow["login"])
    text = page.bytes.decode()
    assert page.status == 200 and html.escape("App <1>") in text and "<script" not in text
    assert "script-src" not in page.header("Content-Security-Policy") and "frame-ancestors 'none'" in page.header("Content-Security-Policy")
    assert browse(world, flow["login"], {"login": user.login, "key": "x" * 32}).status == 403
    yes = proof(world, flow, user)
    assert poll(world, flow) is None
    assert browse(world, flow["login"], {"proof": "x" + yes}).status >= 400
    assert browse(world, open_flow(world)["login"], {"proof": yes}).status >= 400
    assert browse(world, flow["login"], {"proof": yes}).status == 200
    told = poll(world, flow)
    assert told.keys() == {"server", "loginName", "appPassword"} and told["loginName"] == user.login
    assert poll(world, flow) is None
    asked = world.send({"request": "GET cloud/user", "as": "nobody", "headers": {"Authorization": basic(user.login, told["appPassword"])}})
    assert asked.status == 200 and asked.body["ocs"]["data"]["id"] == user.login


@RULES("login-flow", "login-poll")
def test_a_flow_is_open_for_twenty_minutes_and_a_proof_good_for_ten(world):
    kept, spent = open_flow(world), open_flow(world)
    late, yes = proof(world, kept, world.alice), proof(world, spent, world.alice)
    world.running.restart_later(9 * 60)
    assert browse(world, spent["login"], {"proof": yes}).status == 200
    world.running.restart_later(11 * 60)
    assert browse(world, kept["login"], {"proof": late}).status >= 400
    assert browse(world, kept["login"]).status == 200
    assert browse(world, kept["login"], {"proof": proof(world, kept, world.alice)}).status == 200
    world.running.restart_later(21 * 60)
    assert browse(world, kept["login"]).status >= 400
    assert poll(world, kept) is None and poll(world, spent) is None


@RULES("login-flow")
def test_a_host_application_lets_an_app_in(world):
    flow = open_flow(world)
    assert world.running.grant_login(world.alice, "x" * 128).status == 404
    assert world.running.grant_login(world.alice, flow["login"].split("/")[-1]).status == 200
    assert poll(world, flow)["loginName"] == world.alice.login


@RULES("login-start")
@pytest.mark.option("limits-of-ocs")
# A separate service, in which no other case has a login waiting.
@pytest.mark.settings(calls_per_address="100000/60s")
def test_two_hundred_apps_of_an_address_may_wait(world):
    for _ in range(200):
        open_flow(world)
    answer = world.send({"request": "POST /index.php/login/v2", "as": "nobody"})
    assert answer.status == 429 and answer.header("Retry-After")


@RULES("ocs-limits", "not-logged-in")
@pytest.mark.option("wrong-keys")
@pytest.mark.settings(calls_per_address="1000000/60s")
def test_who_shows_too_many_wrong_passwords_is_held_up_but_for_one_that_was_right(world):
    def call(user, password):
        return world.send({"request": "GET cloud/user", "as": "nobody", "headers": {"Authorization": basic(user.login, password)}})

    assert call(world.alice, world.talk.password).status == 200
    assert [call(world.bob, f"wrong {number}").status for number in range(20)] == [401] * 20
    # A slow machine misses the first times for which each further one is held up.
    held = next(answer for number in range(10) if (answer := call(world.bob, f"one more {number}")).status != 401)
    assert (held.status, held.body["ocs"]["meta"]["statuscode"]) == (429, 429)
    assert call(world.alice, world.talk.password).status == 200


@RULES("get-app-password")
@pytest.mark.settings(calls_per_user="100000/60s")
def test_a_user_has_at_most_a_hundred_app_passwords(world):
    statuses = [world.send({"request": "GET core/getapppassword", "as": "alice"}).status for _ in range(101)]
    assert statuses[:100] == [200] * 100 and statuses[100] >= 400


@RULES("ocs-format")
def test_json_is_written_as_php_writes_it(world):
    world.notify({"nid": 7, "app": "spreed", "subject": "</ü>"})
    answer = world.send({"request": "GET apps/notifications/api/v2/notifications/7"})
    assert rb'"subject":"\u003C\/\u00fc\u003E"' in answer.bytes, answer.bytes


@RULES("identifier-text", "device-identifier")
def test_a_name_in_another_alphabet_is_signed_as_php_writes_it(world):
    user = world.running.add_user(f"jürgen-{world.place}")
    user.authorization, user.agent = basic(user.login, user.key), "Browser/1.0"
    world.__dict__["alice"] = user
    _, number = world.talk.password_and_id
    assert world.register(world.talk).status == 201
    digest = base64.b64decode(world.talk.told["deviceIdentifier"], validate=True)
    hosts = {"localhost:8080", urllib.parse.urlsplit(world.running.url).netloc}
    assert digest in {hashlib.sha512(f'["j\\u00fcrgen-{world.place}@{host}",{number}]'.encode()).digest() for host in hosts}
    assert world.send({"request": f"DELETE {PUSH}", "as": "talk"}).status == 202
