"""Subscriptions that come, go and are held up."""

import time

import pytest

from worlds.nextcloud_server import WEBPUSH

RULES = pytest.mark.rules
HELLO = {"app": "spreed", "subject": "Hello"}


@pytest.fixture
def is_last(running):
    """No test after this one uses its service."""
    yield
    running.is_spent = True


def alone(test):
    """Each has a service of its own, as all subscriptions are at one host: what holds one up holds up all, after an outage of a
    minute for up to another minute."""
    return pytest.mark.usefixtures("is_last")(pytest.mark.settings(calls_per_user="100000/60s", deadline="500ms")(test))


def receipt(world, part):
    [told] = world.notify(part).body["nextcloud"]["proxies"]
    return told


def nids(arrived):
    return [arrival["payload"].get("nid") for arrival in arrived]


def asked(world):
    """How often the push service was asked, refused requests too."""
    return len(world.simulator.deliveries(list(world.subscribed), accepted=False))


@RULES("webpush-vapid")
def test_there_is_one_key_for_all_and_for_good(world):
    def key(name):
        return world.send({"request": f"GET {WEBPUSH}/vapid", "as": name}).body["ocs"]["data"]["vapid"]

    before = key("talk")
    assert before == key("bob")
    world.running.restart()
    assert before == key("talk")


@RULES("webpush-activate", "one-subscription")
def test_a_subscription_is_active_once_its_token_has_come_back(world):
    app = world.web
    assert world.send({"request": f"POST {WEBPUSH}", "as": "web", "form": app.subscription}).status == 201
    assert world.notify({"nid": 1, **HELLO}).body["nextcloud"]["devices"] == 0
    [token] = [arrival["payload"]["activationToken"] for arrival in world.web_arrived(1)]

    def activate():
        return world.send({"request": f"POST {WEBPUSH}/activate", "as": "web", "form": {"activationToken": token}})

    assert [(answer.status, answer.body["ocs"]["data"]) for answer in (activate(), activate())] == [(202, []), (200, [])]
    assert receipt(world, {"nid": 2, **HELLO})["sent"] == 1
    assert nids(world.web_arrived(1)) == [2]
    assert world.send({"request": f"DELETE {WEBPUSH}", "as": "web"}).status == 202
    assert activate().body["ocs"]["data"]["message"] == "NO_PUSH_SUBSCRIPTION"


@RULES("one-subscription")
def test_another_one_of_an_app_takes_the_place_of_the_first(world):
    assert world.subscribe(world.web).status == 202
    former = world.subscribed.copy()
    del world.web.__dict__["subscribed"]
    assert world.subscribe(world.web).status == 202
    assert receipt(world, {"nid": 1, **HELLO})["sent"] == 1
    assert nids(world.web_arrived(1)) == [1]
    assert len(world.simulator.deliveries(list(former))) == 1, "the former one got more than its token"


@RULES("one-subscription")
def test_one_endpoint_of_a_user_is_one_subscription(world):
    assert world.subscribe(world.web).status == 202
    # The app has signed in anew.
    world.web2.__dict__["subscribed"] = world.web.subscribed
    assert world.subscribe(world.web2).status == 202
    assert receipt(world, {"nid": 1, **HELLO})["sent"] == 1
    assert nids(world.web_arrived(1)) == [1]
    assert world.send({"request": f"DELETE {WEBPUSH}", "as": "web"}).status == 200


@RULES("one-subscription", "webpush-app-password")
@pytest.mark.settings(webpush_browsers=True)
def test_the_subscription_of_an_api_key_ends_with_it(world):
    world.web.__dict__["password_and_id"] = (world.alice.key, None)
    assert world.subscribe(world.web).status == 202
    # The one of an app password is another.
    assert world.subscribe(world.web2).status == 202
    assert world.notify({"nid": 1, **HELLO}).body["nextcloud"]["devices"] == 2
    assert nids(world.web_arrived(2)) == [1, 1]
    assert world.running.change_user(world.alice, api_key="a" * 32).status == 200
    assert receipt(world, {"nid": 2, **HELLO})["sent"] == 1
    assert [arrival["to"] for arrival in world.web_arrived(1)] == ["web2"]


@alone
@RULES("one-subscription", "webpush-5xx")
def test_what_waits_for_a_subscription_goes_with_it(world):
    assert world.subscribe(world.web).status == 202
    with world.simulator.faults(webpush={"outage": True}):
        assert receipt(world, {"nid": 1, **HELLO})["queued"] == 1
        assert world.send({"request": f"DELETE {WEBPUSH}", "as": "web"}).status == 202
    assert world.subscribe(world.web).status == 202
    assert receipt(world, {"nid": 2, **HELLO})["failed"] == 0
    assert nids(world.web_arrived(1)) == [2]


@RULES("webpush-request")
def test_a_deletion_has_the_topic_of_what_it_deletes(world):
    assert world.subscribe(world.web).status == 202
    for part in ({"nid": 1, **HELLO}, {"nid": 2, **HELLO}, {"nid": 1, "app": "spreed", "subject": "Again"}, {"delete_nids": [2]}):
        assert receipt(world, part)["sent"] == 1
    first, second, again, deleted = [arrival["headers"]["topic"] for arrival in world.web_arrived(4)]
    assert first == again != second == deleted


@alone
@RULES("webpush-outbox")
def test_at_most_a_hundred_wait_for_a_subscription(world):
    assert world.subscribe(world.web).status == 202
    with world.simulator.faults(webpush={"outage": True}):
        told = [receipt(world, {"nid": number, **HELLO}) for number in range(1, 102)]
        assert world.send({"request": f"DELETE {WEBPUSH}", "as": "web"}).status == 202
        # A try that had begun by then may outlast the outage.
        world.simulator.answer(world.web.address, 400)
    assert [item["queued"] for item in told] == [1] * 100 + [0] and told[-1]["failed"] == 1


@alone
@RULES("webpush-outbox")
def test_a_deletion_removes_what_waits_for_a_subscription(world):
    assert world.subscribe(world.web).status == 202
    with world.simulator.faults(webpush={"outage": True}):
        for part in ({"nid": 1, **HELLO}, {"nid": 2, **HELLO}, {"delete_nids": [1]}):
            assert receipt(world, part)["queued"] == 1
    arrived = world.web_arrived(2)
    assert sorted(arrival["payload"]["nid"] for arrival in arrived) == [1, 2]
    assert [arrival["payload"] for arrival in arrived if arrival["payload"]["nid"] == 1] == [{"nid": 1, "delete": True}]


@alone
@RULES("webpush-429", "webpush-outbox")
def test_a_subscription_is_left_alone_until_the_time_that_its_push_service_names(world):
    assert world.subscribe(world.web).status == 202
    with world.simulator.faults(webpush={"status": 429, "retry_after": "3"}):
        assert receipt(world, {"nid": 1, **HELLO})["queued"] == 1
    before = asked(world)
    assert receipt(world, {"nid": 2, **HELLO})["queued"] == 1
    assert asked(world) == before, "it was asked again at once"
    assert sorted(nids(world.web_arrived(2))) == [1, 2]


@alone
@RULES("webpush-401-403")
@pytest.mark.parametrize("status", [401, 403])
def test_a_subscription_that_refuses_the_key_is_left_alone_for_a_while(world, status):
    assert world.subscribe(world.web).status == 202
    before = asked(world)
    with world.simulator.faults(webpush={"status": status}):
        for number in range(40):
            assert receipt(world, {"nid": number, **HELLO})["queued"] == 1
        # It is asked once more after some seconds, then after twice as many, and so on.
        assert 1 <= asked(world) - before < 10
        assert world.send({"request": f"DELETE {WEBPUSH}", "as": "web"}).status == 202


@alone
@pytest.mark.option("guard")
@RULES("webpush-401-403")
def test_a_subscription_that_goes_on_refusing_the_key_ends_where_another_gets_its_notifications(world):
    assert world.subscribe(world.web).status == world.subscribe(world.web2).status == 202
    world.simulator.answer(world.web.address, 403)
    devices = []
    while len(devices) < 60 and 1 not in devices:
        devices.append(world.notify({"nid": len(devices), **HELLO}).body["nextcloud"]["devices"])
        time.sleep(0.5)
    assert devices[:2] == [2, 2] and devices[-1] == 1
    assert nids(world.web_arrived(len(devices))) == list(range(len(devices)))
    # It may come again.
    del world.web.__dict__["subscribed"]
    assert world.subscribe(world.web).status == 202
