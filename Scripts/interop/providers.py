"""Pushes to a running provider simulator with aioapns and firebase-admin, as other servers push to Apple and Google.

Checks that what the simulator accepts and refuses is what these libraries send and understand. Needs requirements.txt
and `push-bouncer simulate --apns-port P --fcm-port Q --keys-out DIR`. Prints a line per check;
exits 1 if one fails.
"""

import argparse
import asyncio
import json
import logging
import os
import ssl
import sys
import tempfile
import urllib.request
import warnings
from pathlib import Path

failures = 0


def check(what, ok, detail=""):
    global failures
    failures += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {what}" + (f": {detail}" if detail and not ok else ""), flush=True)


class Control:
    """The simulator's control calls."""

    def __init__(self, fcm_port):
        self.base = f"http://127.0.0.1:{fcm_port}/_control"

    def __call__(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def arrived(self, since):
        answer = self("GET", f"/deliveries?since={since}")
        return answer["deliveries"], answer["next"]


def elliptic_key():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return pem(ec.generate_private_key(ec.SECP256R1()), serialization)


def rsa_key():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    return pem(rsa.generate_private_key(public_exponent=65537, key_size=2048), serialization)


def pem(key, serialization):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


async def check_apns(keys, port, control):
    import aioapns
    from aioapns.connection import APNsProductionClientProtocol

    APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
    APNsProductionClientProtocol.APNS_PORT = port
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
    _, since = control.arrived(0)
    result = await push(good, priority=aioapns.PRIORITY_HIGH, time_to_live=3600)
    check("aioapns: accepted with the right key", result.is_successful, result.description)
    arrived, _ = control.arrived(since)
    check(
        "aioapns: arrived as it was sent",
        len(arrived) == 1 and arrived[0]["token"] == token and arrived[0]["topic"] == topic
        and arrived[0]["payload"] == {"aps": {"alert": "Grüße"}, "n": 1} and arrived[0]["id"] == result.notification_id
        and arrived[0]["headers"]["apns-priority"] == "10",
        arrived)
    results = await asyncio.gather(*[push(good) for _ in range(200)])
    check("aioapns: 200 at once all accepted", all(r.is_successful for r in results))

    for rule, reason in [
        ({"status": 410, "reason": "Unregistered"}, "Unregistered"),
        ({"status": 400, "reason": "BadDeviceToken"}, "BadDeviceToken"),
        ({"status": 429, "reason": "TooManyRequests"}, "TooManyRequests"),
    ]:
        control("PUT", f"/tokens/{token}", rule)
        result = await push(good)
        check(
            f"aioapns: understands {reason}",
            result.status == str(rule["status"]) and result.description == reason, (result.status, result.description))
    control("DELETE", f"/tokens/{token}")

    result = await push(client(topic="org.example.not-ours"))
    check("aioapns: another topic refused", result.description == "TopicDisallowed", result.description)
    result = await push(client(key=elliptic_key()))
    check("aioapns: another key refused", result.description == "InvalidProviderToken", result.description)
    result = await push(client(key_id="AAAAAAAAAA"))
    check("aioapns: another key id refused", result.description == "InvalidProviderToken", result.description)


def check_fcm(keys, port, control):
    os.environ["REQUESTS_CA_BUNDLE"] = str(keys / "ca.pem")
    import firebase_admin
    from firebase_admin import credentials, exceptions, messaging
    from firebase_admin.messaging import _MessagingService

    account = json.loads((keys / "fcm/default.json").read_text())
    scheme = account["token_uri"].split(":")[0]
    _MessagingService.FCM_URL = f"{scheme}://127.0.0.1:{port}/v1/projects/{{0}}/messages:send"

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
    _, since = control.arrived(0)
    name = messaging.send(message(), app=good)
    check("firebase-admin: accepted with the right account", name.startswith(f"projects/{account['project_id']}/messages/"))
    arrived, since = control.arrived(since)
    check(
        "firebase-admin: arrived as it was sent",
        len(arrived) == 1 and arrived[0]["id"] == name and arrived[0]["project"] == account["project_id"]
        and arrived[0]["payload"]["message"]["data"] == {"push_key_id": "20", "text": "Grüße"}, arrived)
    batch = messaging.send_each([message(f"phone:{n}") for n in range(50)], app=good)
    check("firebase-admin: 50 at once all accepted", batch.success_count == 50)
    _, since = control.arrived(since)
    messaging.send(message(), dry_run=True, app=good)
    check("firebase-admin: a dry run delivers nothing", control.arrived(since)[0] == [])

    for rule, kind in [
        ({"status": 404, "reason": "UNREGISTERED"}, messaging.UnregisteredError),
        ({"status": 403, "reason": "SENDER_ID_MISMATCH"}, messaging.SenderIdMismatchError),
        ({"status": 429, "reason": "QUOTA_EXCEEDED"}, messaging.QuotaExceededError),
        ({"status": 401, "reason": "THIRD_PARTY_AUTH_ERROR"}, messaging.ThirdPartyAuthError),
        ({"status": 400, "reason": "INVALID_ARGUMENT"}, exceptions.InvalidArgumentError),
    ]:
        control("PUT", "/tokens/phone%3Aone", rule)
        error = failure(lambda: messaging.send(message(), app=good))
        check(f"firebase-admin: understands {rule['reason']}", type(error) is kind, repr(error))
    control("DELETE", "/tokens/phone%3Aone")

    # The library refuses such data itself, so its check is passed by: what counts is the answer.
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
    error = failure(lambda: messaging.send(message(), app=app("key", private_key=rsa_key())))
    check("firebase-admin: another key refused by OAuth", "invalid_grant" in str(error), repr(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=Path, required=True, help="the folder of --keys-out")
    parser.add_argument("--apns-port", type=int, required=True)
    parser.add_argument("--fcm-port", type=int, required=True)
    arguments = parser.parse_args()
    # Refusals are what is looked for here: no need to hear of each from the libraries too.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore", DeprecationWarning)
    control = Control(arguments.fcm_port)
    asyncio.run(check_apns(arguments.keys, arguments.apns_port, control))
    check_fcm(arguments.keys, arguments.fcm_port, control)
    if failures:
        print(f"{failures} failed", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
