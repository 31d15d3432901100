"""Rates, wrong keys, and what a request may be."""

import contextlib
import json
import select
import socket
import time
import urllib.parse

import pytest

from conformance import http
from conformance.phones import encode


def unknown(world):
    return world.send({"request": "POST /api/v1/remotes/server/register/transfer", "as": "nobody", "form": {"hostname": "nobody.example.org"}})


@pytest.mark.rules("rate-anonymous", "rate-answer", "answer-429", "rates-elsewhere")
@pytest.mark.option("rate-limits")
@pytest.mark.settings(calls_per_address="5/60s")
def test_calls_without_credentials_have_a_rate_per_address(world):
    answers = [unknown(world) for _ in range(6)]
    assert [answer.status for answer in answers] == [400] * 5 + [429]
    exceeded = answers[-1]
    assert {**exceeded.body, "retry-after": 0} == {
        "result": "error", "msg": "API usage exceeded rate limit", "retry-after": 0, "code": "RATE_LIMIT_HIT"}
    assert 0 < exceeded.body["retry-after"] <= 60
    assert 0 < float(exceeded.header("Retry-After")) <= 60


@pytest.mark.rules("rate-server", "rate-registrations", "rate-answer", "answer-429")
@pytest.mark.option("rate-limits")
@pytest.mark.settings(calls_per_server="6/60s")
def test_authenticated_calls_have_a_rate_per_server_but_for_what_would_be_lost(world):
    assert world.server.realm
    answers = [world.server.call("GET", "server/analytics/status") for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert [int(answer.header("X-RateLimit-Remaining")) for answer in answers[:5]] == [4, 3, 2, 1, 0]
    assert {answer.header("X-RateLimit-Limit") for answer in answers[:5]} == {"6"}
    assert all(abs(int(answer.header("X-RateLimit-Reset")) - time.time()) <= 61 for answer in answers[:5])
    # Devices and notifications have limits of their own.
    assert world.server.register(world.apns).status == 200
    assert world.server.notify(world.make_item("apns")).body["apple_successfully_sent_count"] == 1
    assert world.server.notify_in_clear(world.user).status == 200
    assert len(world.arrived(1)) == 1
    # And so have other servers.
    assert world.other.call("GET", "server/analytics/status").status == 200


@pytest.mark.rules("auth-held-up", "wrong-keys")
@pytest.mark.option("wrong-keys")
@pytest.mark.settings(calls_per_address="1000000/60s")
def test_an_address_that_shows_too_many_wrong_keys_is_held_up_but_for_a_key_that_was_right(world):
    def call(id, key):
        return world.send({"request": "GET /api/v1/remotes/server/analytics/status", "as": "nobody",
                           "headers": {"Authorization": "Basic " + encode(f"{id}:{key}".encode())}})

    victim = world.admitted
    assert call(world.server.id, world.server.key).status == 200
    # The same wrong key again is no other one.
    assert [call(victim.id, "the same").status for _ in range(30)] == [401] * 30
    assert [call(victim.id, f"wrong {number}").status for number in range(20)] == [401] * 20
    # Each further one is held up, for longer each time: a slow machine misses the first of these times.
    for number in range(10):
        held = call(victim.id, f"one more {number}")
        if held.status == 429:
            break
    assert (held.status, held.body["code"], held.body["msg"]) == (429, "RATE_LIMIT_HIT", "API usage exceeded rate limit")
    assert call(world.server.id, world.server.key).status == 200


@pytest.mark.rules("answer-405", "body-format", "error")
@pytest.mark.option("envelope-bytes")
def test_a_body_is_compact_json_with_one_newline(world):
    answer = world.server.call("GET", "server/analytics/status")
    assert answer.bytes == json.dumps(answer.body, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    answer = world.send({"request": "POST /api/v1/remotes/server/register/transfer", "as": "nobody", "form": {"hostname": "Zoë"}})
    assert "ë".encode() in answer.bytes and answer.bytes.endswith(b"}\n")
    # The error's own members come between the message and the code.
    answer = world.server.call("POST", "push/e2ee/register", form={})
    assert list(answer.body) == ["result", "msg", "var_name", "code"]
    answer = world.send({"request": "PUT /api/v1/remotes/server/deactivate", "as": "nobody"})
    assert not answer.bytes.endswith(b"\n")


@pytest.mark.rules("answer-400-bare")
@pytest.mark.option("malformed-requests")
@pytest.mark.parametrize("data", [
    pytest.param(b"hello\r\n\r\n", id="not HTTP"), pytest.param(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", id="a byte that is not ASCII"),
])
def test_what_is_not_http_is_told_so(world, data):
    head, _, body = http.raw(world.running.url, data).partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0].startswith(b"HTTP/1.1 400") and body == b""


@pytest.mark.rules("limit-bodies-together", "answer-503-database")
@pytest.mark.option("body-limits")
def test_bodies_that_are_on_their_way_have_a_limit_per_address(world):
    assert world.server.id
    url = urllib.parse.urlsplit(world.running.url)
    with contextlib.ExitStack() as stack:
        waiting = []
        # All but the last byte of bodies that are allowed each: together they are more than a quarter of 64 MiB.
        for _ in range(17):
            connection = stack.enter_context(socket.create_connection((url.hostname, url.port), timeout=60))
            connection.sendall(
                f"POST /api/v1/remotes/push/register HTTP/1.1\r\nHost: x\r\nAuthorization: {world.server.authorization}\r\n"
                f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000001\r\n\r\n".encode())
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"x" * 1000000)
            waiting.append(connection)
        refused = select.select(waiting, [], [], 25)[0]
        assert 1 <= len(refused) < len(waiting)
        answer = refused[0].recv(65536)
    assert b" 503 " in answer.split(b"\r\n")[0], answer
    assert b"retry-after: 5\r\n" in answer.lower()
    assert b'"Service temporarily unavailable"' in answer


@pytest.mark.slow
@pytest.mark.rules("limit-request-time")
@pytest.mark.option("body-limits")
def test_a_request_that_does_not_end_is_cut_off_after_half_a_minute(world):
    url = urllib.parse.urlsplit(world.running.url)
    with socket.create_connection((url.hostname, url.port), timeout=120) as connection:
        started = time.monotonic()
        connection.sendall(b"POST /api/v1/remotes/server/register HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx")
        while connection.recv(65536):
            pass
        assert 25 < time.monotonic() - started


@pytest.mark.rules("legacy-registrations-limit", "limit-legacy-registrations")
@pytest.mark.option("devices-of-a-user")
def test_a_user_has_the_newest_five_hundred_old_apps_of_a_kind(world):
    phones = [getattr(world, f"fcm{number}") for number in range(501)]
    for phone in [*phones, world.apns]:
        assert world.server.register_in_clear(phone, world.user).status == 200
    told = world.server.notify_in_clear(
        world.user, gcm_payload={"event": "message"}, apns_payload={"alert": "Hi"},
        android_devices=[phone.token for phone in phones], apple_devices=[world.apns.token])
    assert (told.body["total_android_devices"], told.body["total_apple_devices"]) == (500, 1)
    assert told.body["deleted_devices"] == {"android_devices": [phones[0].token], "apple_devices": []}
