"""The service sends by Web Push to push services in Python: http_ece opens the messages, and py_vapid verifies who sends."""

import json
import queue
import re
import secrets
import time

import nacl.secret
import py_vapid

from app import Caller, Program, check, item
from conformance.limits import TIMEOUT
from conformance.phones import Subscription, decode, decode_url
from conformance.played import Played, tls

TTL_LIMIT = 28 * 86400


class PushService(Played):
    def __init__(self, context):
        super().__init__(context)
        self.requests = queue.Queue()

    def answer(self, method, path, headers, body):
        self.requests.put((path, headers, body))
        return 201, ""


def look_at(request, subscription, origin, vapid):
    """Checks what RFC 8030, 8188, 8291 and 8292 require of every message. Returns its sender's token and its content."""
    path, headers, body = request
    check("at the endpoint", origin + path == subscription.endpoint, path)
    check("aes128gcm", headers.get("content-encoding") == "aes128gcm", headers)
    check("TTL", re.fullmatch("[0-9]+", headers.get("ttl", "")) and int(headers["ttl"]) <= TTL_LIMIT, headers)
    check("urgency", headers.get("urgency") == "high", headers)
    check("one record with the sender's point", body[20] == 65 and len(body) - 86 <= int.from_bytes(body[16:20]) <= 4096)
    check("what every push service takes", len(body) <= 4096, len(body))
    scheme, _, parameters = headers["authorization"].partition(" ")
    values = dict(re.findall(r"([a-z]+)=([A-Za-z0-9_.-]+)", parameters))
    check("VAPID: the scheme and its two parameters", scheme == "vapid" and sorted(values) == ["k", "t"], parameters)
    check("VAPID: py_vapid verifies the signature", py_vapid.Vapid02.verify(f"vapid t={values['t']},k={values['k']}"))
    header, claims = (json.loads(decode_url(part)) for part in values["t"].split(".")[:2])
    check("VAPID: ES256", header == {"typ": "JWT", "alg": "ES256"}, header)
    check("VAPID: names this push service", claims["aud"] == origin, claims)
    check("VAPID: ends within a day", time.time() < claims["exp"] <= time.time() + 86400, claims)
    check("VAPID: says who to write to", claims["sub"] == "mailto:op@example.org", claims)
    check("VAPID: its key is the one that apps are told", values["k"] == vapid, values["k"])
    return values["t"], json.loads(subscription.open(body))


def main(binary, simulator):
    context = tls(simulator.keys, "http/1.1")
    here, there = PushService(context), PushService(context)
    with Program(binary, simulator, {}, "--operator.email", "op@example.org") as service:
        vapid = Caller(service.url)("GET", "/api/v1/zulip-services/webpush/vapid")["vapid"]
        tokens, salts = {}, set()
        for push, text in (here, "Grüße 🚀"), (here, "x" * 1500), (there, "x"):
            subscription = Subscription(f"{push.url}/push/{secrets.token_urlsafe(16)}?up=1")
            phone = service.phone("fcm", subscription.token)
            service.register(phone)
            sealed = nacl.secret.SecretBox(phone.secret)
            answer = service.notify_phones(item(phone, sealed.encrypt(text.encode())))
            check("counted as Android's", answer["android_successfully_sent_count"] == 1, answer)
            request = push.requests.get(timeout=TIMEOUT)
            token, data = look_at(request, subscription, push.url, vapid)
            check("http_ece opens it", data.keys() == {"encrypted_data", "push_key_id"} and int(data["push_key_id"]) == phone.push_key_id, data)
            check("PyNaCl opens what is in it", sealed.decrypt(decode(data["encrypted_data"])).decode() == text)
            check("a push service's token is made once", tokens.setdefault(push, token) == token)
            salts.add(request[2][:16])
        check("every push service gets a token of its own", len(set(tokens.values())) == 2)
        check("each message has keys of its own", len(salts) == 3)
