"""What push/status says of notifications that were accepted, wait or were refused."""

import time

import pytest

from conformance.limits import TIMEOUT

pytestmark = pytest.mark.option("push-status")


def status(world, server=None):
    answer = (server or world.server).call("GET", "push/status")
    assert answer.status == 200, answer.body
    return answer.body


def registration(world):
    [only] = status(world)["registrations"]
    return only


def notify(world, name):
    assert world.server.notify(world.make_item(name)).status == 200


@pytest.fixture
def fcm(world):
    assert world.server.register(world.fcm).status == 200
    return world.fcm


@pytest.mark.rules("registration-last-success", "registration-state", "route-status")
def test_what_a_provider_has_accepted_shows(world, fcm):
    notify(world, "fcm")
    assert len(world.arrived(1)) == 1
    end = time.monotonic() + TIMEOUT
    while registration(world)["last_success_at"] is None and time.monotonic() < end:
        time.sleep(0.2)
    shown = registration(world)
    assert shown["state"] == "working" and shown["last_success_at"] >= shown["registered_at"]
    assert [route["status"] for route in status(world)["routes"]] == ["ok"]


@pytest.mark.settings(deadline="500ms")
@pytest.mark.rules("registration-waiting", "registration-waiting-for", "registration-state")
def test_what_waits_shows_with_the_route_that_does_not_work(world, fcm):
    with world.simulator.outage():
        notify(world, "fcm")
        body = status(world)
        [shown], [route] = body["registrations"], body["routes"]
        assert (shown["state"], shown["waiting"]) == ("waiting", 1) and shown["waiting_since"]
        assert shown["waiting_for"]["meaning"] and shown["waiting_for"]["until"]
        assert route["status"] in ("ok", "unknown", "failing", "open")
    assert len(world.arrived(1)) == 1


@pytest.mark.rules("registration-last-failure", "status-last-24-hours", "registration-state")
def test_a_refusal_shows_with_its_reason(world):
    assert world.server.register(world.apns).status == 200
    world.simulator.answer(world.apns.address, 413)
    notify(world, "apns")
    shown = registration(world)
    assert shown["state"] == "failing" and shown["last_failure"]["reason"] == "PayloadTooLarge"
    assert shown["last_failure"]["meaning"] in shown["advice"]
    day = status(world)["last_24_hours"]
    assert day["latest_refusals"] == [shown]


@pytest.mark.rules("registration-times", "registration-state")
def test_an_end_shows_with_its_reason(world):
    assert world.server.register(world.apns).status == 200
    world.simulator.answer(world.apns.address, 410)
    notify(world, "apns")
    shown = registration(world)
    assert (shown["state"], shown["last_failure"]["reason"]) == ("ended", "Unregistered") and shown["ended_at"]


@pytest.mark.rules("status-parameters")
@pytest.mark.settings(calls_per_server="1000/60s")
def test_it_may_be_called_sixty_times_a_minute(world):
    answers = [world.server.call("GET", "push/status").status for _ in range(61)]
    assert answers == [200] * 60 + [429]
