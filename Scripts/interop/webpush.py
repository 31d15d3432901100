"""What we send by Web Push, http_ece opens, and who sends it py_vapid verifies.

A service of its own sends to a push service of Python's. Prints a line per check; exits 1 at the first that fails.

    webpush.py EXECUTABLE KEYS APNS_PORT FCM_PORT     the simulator's keys and ports
"""

import http.server
import json
import queue
import re
import secrets
import sys
import threading
import time

import http_ece
import nacl.secret
import py_vapid
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app import Mismatch, Phone, Program, Service, check, decode, decode_url, encode_url, server_tls

TTL_LIMIT = 28 * 86400


def point(key):
    """The public key, as browsers and servers write it."""
    return key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


class Subscription:
    """What a browser or a UnifiedPush distributor gives an app, and the private half of it."""

    def __init__(self, endpoint):
        self.endpoint, self.key, self.secret = endpoint, ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)

    @property
    def info(self):
        """As PushSubscription.toJSON() of the Push API has it."""
        return {"endpoint": self.endpoint, "keys": {"p256dh": encode_url(point(self.key)), "auth": encode_url(self.secret)}}

    @property
    def token(self):
        fields = {"endpoint": self.endpoint, **self.info["keys"]}
        return "webpush:" + encode_url(json.dumps(fields).encode())

    def decrypt(self, body):
        return http_ece.decrypt(body, private_key=self.key, auth_secret=self.secret, version="aes128gcm")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.put((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class PushService(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context):
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.origin, self.requests = f"https://127.0.0.1:{self.server_port}", queue.Queue()
        threading.Thread(target=self.serve_forever, daemon=True).start()


def look_at(request, subscription, origin, vapid):
    """What RFC 8030, 8188, 8291 and 8292 want of every message; the token of its sender, and what the message says."""
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
    return values["t"], json.loads(subscription.decrypt(body))


def main(binary, keys, apns_port, fcm_port):
    context, authority = server_tls("http/1.1")
    here, there = PushService(context), PushService(context)
    options = "--webpush.allow_private_hosts", "127.0.0.1", "--operator.email", "op@example.org"
    with Program(binary, keys, f"https://127.0.0.1:{apns_port}", f"https://127.0.0.1:{fcm_port}", *options, authorities=authority) as service:
        vapid = Service(service.url)("GET", "/api/v1/zulip-services/webpush/vapid")["vapid"]
        tokens, salts = {}, set()
        for push, text in (here, "Grüße 🚀"), (here, "x" * 1500), (there, "x"):
            subscription = Subscription(f"{push.origin}/push/{secrets.token_urlsafe(16)}?up=1")
            phone = Phone("fcm", service.bouncer_key, subscription.token)
            service.register(phone)
            sealed = nacl.secret.SecretBox(phone.key)
            answer = service.notify(phone.item(sealed.encrypt(text.encode())))
            check("counted as Android's", answer["android_successfully_sent_count"] == 1, answer)
            request = push.requests.get(timeout=60)
            token, data = look_at(request, subscription, push.origin, vapid)
            check("http_ece opens it", data.keys() == {"encrypted_data", "push_key_id"} and int(data["push_key_id"]) == phone.key_id, data)
            check("PyNaCl opens what is in it", sealed.decrypt(decode(data["encrypted_data"])).decode() == text)
            check("a push service's token is made once", tokens.setdefault(push, token) == token)
            salts.add(request[2][:16])
        check("every push service gets a token of its own", len(set(tokens.values())) == 2)
        check("each message has keys of its own", len(salts) == 3)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Mismatch as error:
        sys.exit(f"FAIL {error}")
