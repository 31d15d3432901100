"""A server proves that its hostname is its own."""

import json
import time

import pytest

from conformance.chat_host import PATH, chat_host
from conformance.phones import upload

pytestmark = pytest.mark.option("private-hosts")


@pytest.fixture
def host(world):
    with chat_host(world.simulator.keys) as host:
        yield host


@pytest.fixture
def registered(world, host):
    """A server with that hostname."""
    world.server.hostname = host.hostname
    assert world.server.id
    return world.server


def secret(world, hostname):
    answer = world.send({"request": "POST /api/v1/remotes/server/register/transfer", "as": "nobody", "form": {"hostname": hostname}})
    assert answer.status == 200, answer.body
    return answer.body["verification_secret"]


def verify(world, hostname, token="abc-_1"):
    return world.send({"request": "POST /api/v1/remotes/server/register/verify_challenge", "as": "nobody",
                       "form": {"hostname": hostname, "access_token": token}})


def prove(world, host):
    """Proves the hostname of a host. Returns the id and key that the server gets."""
    host.told = shown(secret(world, host.hostname))
    answer = verify(world, host.hostname)
    assert answer.status == 200 and answer.body.keys() == {"result", "msg", "zulip_org_id", "zulip_org_key"}, answer.body
    return answer.body["zulip_org_id"], answer.body["zulip_org_key"]


def shown(secret):
    return 200, json.dumps({"result": "success", "msg": "", "verification_secret": secret})


def refused(world, host, answer, hostname=None):
    host.told = answer
    answer = verify(world, hostname or host.hostname)
    assert (answer.status, answer.body["result"], answer.body["code"]) == (400, "error", "BAD_REQUEST")
    return answer.body["msg"]


@pytest.mark.rules("verify-success", "verify-call", "challenge-shown", "challenge-secret")
def test_a_known_server_keeps_its_id_and_gets_a_new_key_and_the_old_one_is_dead_at_once(world, host, registered):
    id, key = prove(world, host)
    assert id == registered.id and len(key) == 64 and key != registered.key
    assert host.asked == [PATH + "abc-_1/"]
    assert registered.call("GET", "server/analytics/status").status == 401
    registered.key = key
    assert registered.call("GET", "server/analytics/status").status == 200


@pytest.mark.rules("verify-success")
def test_a_server_that_has_deactivated_itself_is_active_again(world, host, registered):
    assert registered.call("POST", "server/deactivate").status == 200
    assert registered.call("GET", "server/analytics/status").status == 401
    id, registered.key = prove(world, host)
    assert id == registered.id
    assert registered.call("GET", "server/analytics/status").status == 200


@pytest.mark.option("operators-word")
@pytest.mark.rules("challenge-errors", "verify-deactivated", "deactivate", "new-hostname-taken")
def test_a_server_that_the_operator_has_deactivated_stays_so_whoever_proves_its_hostname(world, host, registered):
    host.told = shown(secret(world, host.hostname))
    world.running.deactivate_server(registered.id)
    transfer = {"request": "POST /api/v1/remotes/server/register/transfer", "as": "nobody", "form": {"hostname": host.hostname}}
    for answer in verify(world, host.hostname), world.send(transfer):
        assert (answer.status, answer.body["code"]) == (401, "REALM_DEACTIVATED")
        assert answer.body["msg"] == "The mobile push notification service registration for your server has been deactivated"
    new = {"zulip_org_id": world.uuid, "zulip_org_key": "k" * 64, "hostname": host.hostname, "contact_email": "a@example.org"}
    answer = world.send({"request": "POST /api/v1/remotes/server/register", "as": "nobody", "form": new})
    assert answer.body["code"] == "HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR"
    assert not host.asked
    assert registered.call("GET", "server/analytics/status").status == 401
    world.running.reactivate_server(registered.id)
    assert registered.call("GET", "server/analytics/status").status == 200


@pytest.mark.option("closed-registration")
@pytest.mark.rules("verify-success", "challenge")
@pytest.mark.settings(verify_hostnames=True)
def test_a_new_server_that_may_come_in_gets_both(world, host):
    world.server.credentials = prove(world, host)
    assert world.server.call("GET", "server/analytics/status").status == 200


@pytest.fixture
def moved(world, host):
    """`other`: a new server for all that is known of it, with the host's name, which it has proved."""
    assert world.server.realm
    world.other.credentials = prove(world, host)
    return world.other


def uploaded(server, *realms):
    """Uploads these realms for a server. Returns the error message, or "taken in" if there is none."""
    answer = server.call("POST", "server/analytics", form=upload(*realms))
    return answer.body["msg"] if answer.status != 200 else "taken in"


@pytest.mark.option("realms-change-hands")
@pytest.mark.rules("challenge", "verify-success", "moved-server", "moved-server-proved", "moved-server-names-all",
                   "moved-server-realms", "differs-realms-change-hands")
@pytest.mark.settings(verify_hostnames=True)
def test_a_server_takes_its_realms_along_to_another_hostname(world, moved):
    assert world.server.register(world.apns).status == 200
    assert world.server.register_in_clear(world.fcm, {"user_id": 10}, realm_uuid=None).status == 200
    assert uploaded(moved, world.server.realm_item) == "taken in"
    answer = moved.call("POST", "push/e2ee/notify", json={"realm_uuid": world.server.realm, "push_requests": [world.make_item("apns")]})
    assert answer.body["apple_successfully_sent_count"] == 1
    answer = moved.call("POST", "push/notify", json={**world.user, "realm_uuid": world.server.realm, "gcm_payload": {"event": "message"}})
    assert answer.body["total_android_devices"] == 1
    assert sorted(arrival["to"] for arrival in world.arrived(2)) == ["apns", "fcm"]
    assert world.server.notify(world.make_item("apns")).body["code"] == "REMOTE_REALM_SERVER_MISMATCH_ERROR"
    assert world.server.call("GET", "server/analytics/status").status == 200


@pytest.mark.option("realms-change-hands")
@pytest.mark.rules("moved-server-names-all", "realm-duplicate")
@pytest.mark.settings(verify_hostnames=True)
def test_a_proved_hostname_gives_nobody_the_realms_of_another(world, moved):
    second = {**world.server.realm_item, "id": 3, "uuid": world.uuid}
    world.server.upload(world.server.realm_item, second)
    stolen = {**second, "uuid_owner_secret": "another"}
    for realms in [world.server.realm_item], [world.server.realm_item, stolen], [world.server.realm_with_another_secret, second]:
        said = uploaded(moved, *realms)
        assert said.startswith("Duplicate registration detected.") and "release-realm" in said
    assert uploaded(moved, world.server.realm_item, second) == "taken in"


@pytest.mark.option("realms-change-hands")
@pytest.mark.rules("moved-server-proved")
@pytest.mark.settings(verify_hostnames=True)
def test_a_proof_of_a_hostname_is_good_for_an_hour(world, moved):
    world.running.restart_later(61 * 60)
    assert uploaded(moved, world.server.realm_item).startswith("Duplicate registration detected.")


@pytest.mark.rules("verify-not-prepared")
def test_the_host_has_prepared_no_secret(world, host, registered):
    said = refused(world, host, (400, json.dumps({"result": "error", "msg": "x", "code": "REMOTE_SERVER_VERIFICATION_SECRET_NOT_PREPARED"})))
    assert said == "The host reported it has no verification secret."


@pytest.mark.rules("verify-error-status")
def test_the_host_answers_with_an_error(world, host, registered):
    assert refused(world, host, (400, "{}")) == "Error response received from the host: 400"
    assert refused(world, host, (503, "away")) == "Error response received from the host: 503"


@pytest.mark.rules("verify-error-status", "verify-call")
def test_a_redirect_is_not_followed(world, host, registered):
    said = refused(world, host, (302, "", {"Location": f"https://{host.hostname}/elsewhere"}))
    assert said == "Error response received from the host: 302"
    assert len(host.asked) == 1


@pytest.mark.rules("verify-no-secret")
def test_an_answer_without_a_secret(world, host, registered):
    for body in ("{}", "hello", json.dumps({"verification_secret": 7})):
        assert refused(world, host, (200, body)) == "An error occurred while communicating with the host."


@pytest.mark.rules("verify-no-secret", "verify-call")
def test_an_answer_that_is_too_long(world, host, registered):
    long = json.dumps({"more": "x" * 20000, "verification_secret": secret(world, host.hostname)})
    assert refused(world, host, (200, long)) == "An error occurred while communicating with the host."


@pytest.mark.rules("verify-malformed")
def test_a_secret_that_is_not_upper_case_base16(world, host, registered):
    assert refused(world, host, shown("not base16")) == "The verification secret is malformed"
    assert refused(world, host, shown(secret(world, host.hostname).lower())) == "The verification secret is malformed"


@pytest.mark.rules("verify-not-ours")
def test_a_secret_that_is_not_the_bouncers(world, host, registered):
    made = secret(world, host.hostname)
    changed = ("0" if made[0] != "0" else "1") + made[1:]
    assert refused(world, host, shown(changed)) == "The verification secret is invalid"


@pytest.mark.rules("verify-other-hostname")
def test_a_secret_of_another_hostname(world, host, registered):
    assert world.other.id
    said = refused(world, host, shown(secret(world, world.other.hostname)))
    assert said == "The verification secret is for a different hostname"


@pytest.mark.slow
@pytest.mark.rules("verify-expired", "challenge-secret")
def test_a_secret_that_is_older_than_ten_seconds(world, host, registered):
    made = secret(world, host.hostname)
    time.sleep(11)
    assert refused(world, host, shown(made)) == "The verification secret has expired"


@pytest.mark.rules("verify-tls")
def test_a_host_whose_certificate_nobody_trusts(world):
    with chat_host(None) as host:
        world.server.hostname = host.hostname
        assert world.server.id
        assert refused(world, host, (200, "{}")) .startswith("SSL error occurred while communicating with the host.")


@pytest.mark.rules("verify-no-connection")
def test_a_host_that_is_not_there(world):
    with chat_host(None) as host:
        world.server.hostname = host.hostname
        assert world.server.id
    refusal = refused(world, host, (200, "{}"))
    assert refusal.startswith("Connection error occurred while communicating with the host.")


@pytest.mark.rules("verify-no-connection", "verify-call")
@pytest.mark.settings(verify_private=False)
def test_a_host_at_a_private_address(world, host, registered):
    assert refused(world, host, (200, "{}")) == "Connection error occurred while communicating with the host."
    assert host.asked == []


@pytest.mark.rules("verify-timeout", "verify-call")
def test_a_host_that_does_not_answer(world, host, registered):
    started = time.monotonic()
    assert refused(world, host, None) == "The request timed out while communicating with the host."
    assert time.monotonic() - started > 4


@pytest.mark.rules("verify-limit")
def test_ten_calls_of_a_hostname(world, host, registered):
    for _ in range(10):
        assert refused(world, host, (200, "{}")) == "An error occurred while communicating with the host."
    answer = verify(world, host.hostname)
    assert (answer.status, answer.body["code"]) == (429, "RATE_LIMIT_HIT")
    assert answer.body["msg"].startswith("The global limits on recent usage of this endpoint have been reached.")
    assert len(host.asked) == 10
