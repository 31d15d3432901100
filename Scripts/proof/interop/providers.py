"""Pushes to the simulator with aioapns and firebase-admin, as other servers push to Apple and Google.

The simulator accepts what these libraries send, and they understand its refusals.
"""

import asyncio
import json
import logging
import os
import ssl
import tempfile
import urllib.parse
import warnings

import aioapns
import firebase_admin
from aioapns.connection import APNsProductionClientProtocol
from cryptography.hazmat.primitives.asymmetric import ec
from firebase_admin import credentials, exceptions, messaging

from app import check
from conformance import nextcloud
from vectors import private_pem


def arrived(simulator, since):
    answer = simulator.call("GET", f"/deliveries?since={since}")
    return answer["deliveries"], answer["next"]


async def check_apns(simulator):
    keys = simulator.keys
    APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
    APNsProductionClientProtocol.APNS_PORT = urllib.parse.urlsplit(simulator.apns).port
    description = json.loads((keys / "apns/simulator.json").read_text())
    key = (keys / "apns" / description["key_file"]).read_text()
    topic = description["topics"][0]
    token = os.urandom(32).hex()

    def client(key=key, key_id=description["key_id"], topic=topic):
        return aioapns.APNs(
            key=key, key_id=key_id, team_id=description["team_id"], topic=topic,
            ssl_context=ssl.create_default_context(cafile=str(keys / "ca.pem")))

    async def push(apns, token=token, **options):
        request = aioapns.NotificationRequest(
            device_token=token, message={"aps": {"alert": "Grüße"}, "n": 1}, push_type=aioapns.PushType.ALERT, **options)
        return await asyncio.wait_for(apns.send_notification(request), 30)

    good = client()
    _, since = arrived(simulator, 0)
    result = await push(good, priority=aioapns.PRIORITY_HIGH, time_to_live=3600)
    check("aioapns: accepted with the right key", result.is_successful, result.description)
    found, _ = arrived(simulator, since)
    check(
        "aioapns: arrived as it was sent",
        len(found) == 1 and found[0]["token"] == token and found[0]["topic"] == topic
        and found[0]["payload"] == {"aps": {"alert": "Grüße"}, "n": 1} and found[0]["id"] == result.notification_id
        and found[0]["headers"]["apns-priority"] == "10",
        found)
    results = await asyncio.gather(*[push(good) for _ in range(200)])
    check("aioapns: 200 at once all accepted", all(r.is_successful for r in results))

    for rule, reason in [
        ({"status": 410, "reason": "Unregistered"}, "Unregistered"),
        ({"status": 400, "reason": "BadDeviceToken"}, "BadDeviceToken"),
        ({"status": 429, "reason": "TooManyRequests"}, "TooManyRequests"),
    ]:
        simulator.answer(token, **rule)
        result = await push(good)
        check(
            f"aioapns: understands {reason}",
            result.status == str(rule["status"]) and result.description == reason, (result.status, result.description))
    simulator.forget(token)

    result = await push(client(topic="org.example.not-ours"))
    check("aioapns: another topic refused", result.description == "TopicDisallowed", result.description)
    result = await push(client(key=private_pem(ec.generate_private_key(ec.SECP256R1()))))
    check("aioapns: another key refused", result.description == "InvalidProviderToken", result.description)
    result = await push(client(key_id="AAAAAAAAAA"))
    check("aioapns: another key id refused", result.description == "InvalidProviderToken", result.description)


def check_fcm(simulator):
    os.environ["REQUESTS_CA_BUNDLE"] = str(simulator.keys / "ca.pem")
    account = json.loads((simulator.keys / "fcm/default.json").read_text())
    messaging._MessagingService.FCM_URL = simulator.fcm + "/v1/projects/{0}/messages:send"

    def app(name, **changes):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({**account, **changes}, file)
            file.flush()
            return firebase_admin.initialize_app(credentials.Certificate(file.name), {"httpTimeout": 30}, name=name)

    def failure(send):
        try:
            send()
        except Exception as error:
            return error
        return None

    def message(token="phone:one", **options):
        return messaging.Message(
            token=token, data={"push_key_id": "20", "text": "Grüße"},
            android=messaging.AndroidConfig(priority="high", ttl=3600), **options)

    good = app("good")
    _, since = arrived(simulator, 0)
    name = messaging.send(message(), app=good)
    check("firebase-admin: accepted with the right account", name.startswith(f"projects/{account['project_id']}/messages/"))
    found, since = arrived(simulator, since)
    check(
        "firebase-admin: arrived as it was sent",
        len(found) == 1 and found[0]["id"] == name and found[0]["project"] == account["project_id"]
        and found[0]["payload"]["message"]["data"] == {"push_key_id": "20", "text": "Grüße"}, found)
    batch = messaging.send_each([message(f"phone:{n}") for n in range(50)], app=good)
    check("firebase-admin: 50 at once all accepted", batch.success_count == 50)
    _, since = arrived(simulator, since)
    messaging.send(message(), dry_run=True, app=good)
    check("firebase-admin: a dry run delivers nothing", arrived(simulator, since)[0] == [])

    for rule, kind in [
        ({"status": 404, "reason": "UNREGISTERED"}, messaging.UnregisteredError),
        ({"status": 403, "reason": "SENDER_ID_MISMATCH"}, messaging.SenderIdMismatchError),
        ({"status": 429, "reason": "QUOTA_EXCEEDED"}, messaging.QuotaExceededError),
        ({"status": 401, "reason": "THIRD_PARTY_AUTH_ERROR"}, messaging.ThirdPartyAuthError),
        ({"status": 400, "reason": "INVALID_ARGUMENT"}, exceptions.InvalidArgumentError),
    ]:
        simulator.answer("phone:one", **rule)
        error = failure(lambda: messaging.send(message(), app=good))
        check(f"firebase-admin: understands {rule['reason']}", type(error) is kind, repr(error))
    simulator.forget("phone:one")

    # The library itself refuses such data, so its check is bypassed to get the simulator's answer.
    service = messaging._get_messaging_service(good)
    body = {"message": {"token": "phone:one", "data": {"push_key_id": 20}}}
    error = failure(lambda: service._client.body("post", url=service._fcm_url, json=body))
    answer = getattr(error, "response", None)
    violations = answer.json()["error"]["details"][0]["fieldViolations"] if answer is not None else []
    check(
        "firebase-admin: data that is not a string refused, with its field",
        answer is not None and answer.status_code == 400 and violations[0]["field"] == "message.data[0].value",
        repr(error))

    error = failure(lambda: messaging.send(message(), app=app("project", project_id="another-project")))
    check("firebase-admin: another project refused", isinstance(error, exceptions.NotFoundError), repr(error))
    check("firebase-admin: another project is not a dead token", not isinstance(error, messaging.UnregisteredError))
    error = failure(lambda: messaging.send(message(), app=app("key", private_key=private_pem(nextcloud.key("another")))))
    check("firebase-admin: another key refused by OAuth", "invalid_grant" in str(error), repr(error))


def main(simulator):
    # The libraries log each refusal, and here most pushes are refused.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore", DeprecationWarning)
    asyncio.run(check_apns(simulator))
    check_fcm(simulator)
    logging.disable(logging.NOTSET)
