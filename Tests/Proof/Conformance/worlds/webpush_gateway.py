"""The objects of a Web Push gateway's cases: apps on phones, and senders with VAPID keys."""

import json
import re
import secrets
import time
import urllib.parse

import http_ece
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

import worlds
from adapters import Unsupported
from conformance import http
from conformance.matching import ABSENT, Matcher
from conformance.phones import Subscription, decode, decode_url, encode_url, fcm_recipient, new_token, point, registration, seal

PAGE = "/webpush/v1/"
KINDS = {"ios": "apns", "android": "fcm"}
SENDERS = ("sender", "other")
#: Seconds that a message is worth delivering, where a case does not say otherwise.
LIFE = 60
NAME = "[A-Za-z0-9_-]+"


def members(made):
    """Without those that a case takes away."""
    return {name: value for name, value in made.items() if value != "absent"}


class Octets(http.Answer):
    """An answer whose body is bytes: cases have it in base64url."""

    @property
    def body(self):
        return encode_url(self.bytes)


class Sender:
    """Who sends, with a VAPID key (RFC 8292)."""

    def __init__(self):
        self.private = ec.generate_private_key(ec.SECP256R1())

    @property
    def key(self):
        return encode_url(point(self.private))

    def token(self, audience, seconds=3600, algorithm="ES256", **claims):
        parts = [{"typ": "JWT", "alg": algorithm},
                 members({"aud": audience, "exp": int(time.time()) + seconds, "sub": "mailto:operator@example.org", **claims})]
        signed = ".".join(encode_url(json.dumps(part).encode()) for part in parts)
        r, s = utils.decode_dss_signature(self.private.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{encode_url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


class Phone:
    """An app on a phone, with a token of Apple's or Google's, and the keys with which it opens messages."""

    def __init__(self, name):
        self.name, self.kind = name, KINDS[name.rstrip("0123456789")]
        self.token, self.another_token = new_token(self.kind), new_token(self.kind)
        self.keys, self.messages = Subscription(None), {}
        self.id = self.endpoint = self.secret = None
        #: The name of the last message whose body did not fit.
        self.kept = None

    @property
    def forged(self):
        """An endpoint that looks like its own."""
        return self.endpoint[:-8] + ("AAAAAAAA" if not self.endpoint.endswith("AAAAAAAA") else "BBBBBBBB")

    @property
    def shortened(self):
        return self.endpoint[:-1]

    @property
    def address(self):
        return self.token

    @property
    def addresses(self):
        return {self.token: self.name, self.another_token: f"{self.name} at its other token"}

    def message(self, number=1, encoding="aes128gcm", length=None):
        """(body, headers): another number is another encryption; `length` is that of the encrypted body."""
        if (number, encoding, length) not in self.messages:
            overhead = {"aes128gcm": 103, "aesgcm": 18}[encoding]
            text = f"Hello {number}".encode() if length is None else b"x" * (length - overhead)
            key, salt = ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)
            body = http_ece.encrypt(
                text, salt=salt, private_key=key, dh=decode_url(self.keys.keys["p256dh"]), auth_secret=self.keys.secret, version=encoding)
            headers = {"Content-Encoding": encoding}
            if encoding == "aesgcm":
                headers |= {"Crypto-Key": "dh=" + encode_url(point(key)), "Encryption": "salt=" + encode_url(salt)}
            self.messages[number, encoding, length] = body, headers
        return self.messages[number, encoding, length]

    def open(self, data):
        """The plaintext of what its app got."""
        return self.keys.open(decode_url(data["body"]))


class World(worlds.World):
    """At a push service that has no calls of section 2, apps subscribe as its adapter says, and see the bodies alone."""

    def __init__(self, running, simulator):
        super().__init__(running, simulator)
        self.service = running.push_service
        self.here = {}

    def __getattr__(self, name):
        if name in SENDERS:
            made = Sender()
        elif name.rstrip("0123456789") in KINDS:
            made = self.phones[name] = Phone(name)
        else:
            raise AttributeError(f"the world has no {name}")
        setattr(self, name, made)
        return made

    @property
    def names(self):
        if self.service:
            return {address: name for address, name in self.here.items()}
        return {address: name for phone in self.phones.values() for address, name in phone.addresses.items()}

    # What cases make.

    def registration(self, phone, token="token", sender=None, **changes):
        made = {"token_kind": phone.kind, "token": getattr(phone, token), **changes}
        if phone.kind == "apns":
            made = {"ios_app_id": self.running.app_id, **made}
        if sender:
            made["application_server_key"] = getattr(self, sender).key
        return members(made)

    def make_registration(self, argument):
        """What an app sends to subscribe: `!registration ios`, `!registration [ios, {token: another_token, sender: sender}, {changed: members}]`."""
        name, options, changes = (*argument, {})[:3] if isinstance(argument, list) else (argument, {}, {})
        return members({**self.registration(getattr(self, name), **options), **changes})

    def make_sealed(self, argument):
        """The same, sealed as Zulip's apps do, for the gateway: `!sealed ios`, `!sealed [ios, {timestamp: 0}]`; what is sealed may also be a text."""
        name, changes = argument if isinstance(argument, list) else (argument, {})
        phone, key = getattr(self, name), self.bouncer_key
        content = changes if isinstance(changes, str) else {**registration(phone.token, phone.kind, self.running.app_id), "audience": "webpush", **changes}
        return {"encrypted_push_registration": seal(key, content), "bouncer_public_key": key}

    def make_ago(self, seconds):
        return int(time.time()) - seconds

    def make_message(self, argument):
        """A body that its app can read: `!message ios`, `!message [ios, {number: 2, encoding: aesgcm, length: 4096}]`."""
        return self.message(argument)[0]

    def make_coding(self, argument):
        """The headers that go with it."""
        return self.message(argument)[1]

    def message(self, argument):
        name, options = argument if isinstance(argument, list) else (argument, {})
        return getattr(self, name).message(**options)

    def make_bytes(self, count):
        return bytes(index % 251 for index in range(count))

    def make_base64url(self, argument):
        return encode_url(argument["bytes"])

    @property
    def origin(self):
        """Of the endpoints."""
        url = urllib.parse.urlsplit(next(phone.endpoint for phone in self.phones.values() if phone.endpoint))
        return f"{url.scheme}://{url.netloc}"

    @property
    def scheme(self):
        return self.origin.partition(":")[0]

    @property
    def bouncer_key(self):
        return self.running.bouncer_key()

    def make_vapid(self, argument):
        """An Authorization: `!vapid sender`, `!vapid [sender, {seconds: 90, by: other, form: "vapid t=%t"}]`. In its form `%t` is
        the token and `%k` the key."""
        name, options = argument if isinstance(argument, list) else (argument, {})
        options = dict(options)
        form, by, key = options.pop("form", "vapid t=%t, k=%k"), options.pop("by", name), options.pop("key", getattr(self, name).key)
        audience = options.pop("audience", "%o")
        for short, text in {"%o": self.origin, "%h": urllib.parse.urlsplit(self.origin).hostname}.items():
            if isinstance(audience, str):
                audience = audience.replace(short, text)
        return form.replace("%t", getattr(self, by).token(audience, **options)).replace("%k", key)

    # Steps before a case.

    def step(self, words):
        match words:
            case [name, "is", "subscribed"]:
                return self.subscribe(getattr(self, name))
            case [name, "is", "subscribed", "for", sender]:
                return self.subscribe(getattr(self, name), sender=sender)
            case ["the", "page", "is", "spoken"]:
                if self.service:
                    raise Unsupported("what reaches its phones is its own")
                return None
            case [name, "has", "ended"]:
                return self.end(getattr(self, name))
        raise ValueError(f"no such step: {words}")

    def subscribe(self, phone, sender=None, **options):
        if self.service:
            made = self.service.subscribe(getattr(self, sender).key if sender else None)
            phone.endpoint = made.endpoint
            self.here[made.id] = phone.name
            return None
        answer = self.send({"request": f"POST {PAGE}subscriptions", "json": self.registration(phone, sender=sender, **options)})
        if answer.status == 201:
            self.keep(phone, answer)
        return answer

    def subscribed(self, *phones, sender=None):
        """Subscribes them, which has to succeed."""
        for phone in phones:
            answer = self.subscribe(phone, sender=sender)
            assert answer is None or answer.status == 201, answer.body

    @staticmethod
    def keep(phone, answer):
        phone.id, phone.endpoint, phone.secret = (answer.body[name] for name in ("id", "endpoint", "secret"))

    def renew(self, phone, **options):
        return self.send({"request": f"PUT {PAGE}subscriptions/{phone.id}", "as": phone.name, "json": self.registration(phone, **options)})

    def show(self, phone):
        return self.send({"request": f"GET {PAGE}subscriptions/{phone.id}", "as": phone.name})

    def end(self, phone):
        return self.send({"request": f"DELETE {PAGE}subscriptions/{phone.id}", "as": phone.name})

    def fetch(self, message, phone):
        return self.send({"request": f"GET {PAGE}messages/{message}", "as": phone.name})

    def waiting(self, phone):
        """The names of the bodies that wait for it."""
        answer = self.send({"request": f"GET {PAGE}subscriptions/{phone.id}/messages", "as": phone.name})
        assert answer.status == 200, answer.body
        return [message["id"] for message in answer.body["messages"]]

    def take_back(self, location, sender="sender"):
        authorization = {"Authorization": self.make_vapid(sender)} if sender else {}
        return self.send({"request": f"DELETE {location}", "headers": authorization})

    def post(self, phone, sender="sender", headers=(), **options):
        """A message of the sender's; None sends without a name."""
        body, coding = phone.message(**options)
        authorization = {"Authorization": self.make_vapid(sender)} if sender else {}
        return self.send({"request": f"POST {phone.endpoint}", "headers": {"TTL": "3600", **coding, **authorization, **dict(headers)}, "body": body})

    # Requests and answers.

    def send(self, request):
        """A path is the gateway's own; senders know nothing but the address of an endpoint. `as` names the phone that shows its secret."""
        method, path = request["request"].split(" ", 1)
        headers = dict(request.get("headers", {}))
        if coding := headers.pop("coding", None):
            headers = {**coding, **headers}
        base = self.running.url
        if not path.startswith("/"):
            url = urllib.parse.urlsplit(path)
            base, path = f"{url.scheme}://{url.netloc}", url.path
        elif self.service:
            raise Unsupported("apps subscribe otherwise")
        if who := request.get("as"):
            headers.setdefault("Authorization", f"Bearer {getattr(self, who).secret}")
        answer = self.call(request, path, headers, base)
        if (answer.header("Content-Type") or "").startswith("application/octet-stream"):
            answer = Octets(answer.status, answer.headers, answer.bytes)
        return answer

    def wanted(self, answer):
        """`{refused: 400}` with a message for people, `taken`, `{taken: {TTL: "0"}}`, `subscribed`, `renewed` or all of it."""
        if "refused" in answer:
            if self.service:
                # RFC 8292 lets a push service choose, and senders read no more.
                return {"status": Matcher("among", [401, 403]) if answer["refused"] in (401, 403) else answer["refused"]}
            return {"status": answer["refused"], "headers": answer.get("headers", {}), "body": {"code": Matcher("match", answer.get("code", "[a-z_]+")), "message": Matcher("text")}}
        if "taken" in answer:
            headers = answer["taken"] if isinstance(answer, dict) else {}
            return {"status": 201, "body": None, "headers": {
                "Location": Matcher("match", "(https?:/)?/.+"), "TTL": str(LIFE), "Link": ABSENT, **headers}}
        if answer == "subscribed":
            return {"status": 201, "body": {"id": Matcher("match", NAME), "endpoint": Matcher("match", f"https?://.*{NAME}"),
                                            "secret": Matcher("match", NAME)}}
        if answer == "gone":
            return {"status": 204, "body": None}
        return answer

    # What arrives.

    def make_arrival(self, argument):
        """What a phone gets of `!message`: `!arrival ios`, `!arrival [ios, {number: 2, urgency: low, life: 0, topic: true}]`.
        `body: none` is a message without one, `body: kept` one that did not fit, `silent: true` one that shows nothing."""
        name, options = argument if isinstance(argument, list) else (argument, {})
        options = dict(options)
        phone, urgency, life = getattr(self, name), options.pop("urgency", "normal"), options.pop("life", LIFE)
        silent = options.pop("silent", False)
        has_topic, to, kind = options.pop("topic", False), options.pop("to", "token"), options.pop("body", "sent")
        wakes = urgency in ("normal", "high")
        data = {"subscription": phone.id}
        if kind != "none":
            body, coding = phone.message(**options)
            data["encoding"] = coding["Content-Encoding"]
            if kind == "kept" and not self.service:
                data["message"] = Matcher("match", NAME)
            else:
                data["body"] = encode_url(body)
                data |= {member: coding[header].removeprefix(f"{name}=") for member, header, name in (
                    ("crypto_key", "Crypto-Key", "dh"), ("encryption", "Encryption", "salt")) if header in coding}
        if self.service:
            return {"to": name, "payload": {member: data[member] for member in ("body",) if member in data}}
        if has_topic:
            data["topic"] = Matcher("match", NAME)
        token = getattr(phone, to)
        if phone.kind == "fcm":
            return {"to": phone.addresses[token], "payload": {"message": {
                **fcm_recipient(token), "data": data, "android": {"priority": "high" if wakes else "normal", "ttl": f"{life}s"}}}}
        aps = {"alert": {"title-loc-key": "New notification"}, "mutable-content": 1, **({"sound": "default"} if wakes else {})}
        if silent:
            aps, wakes = {"content-available": 1}, False
        return {"to": phone.addresses[token], "payload": {"aps": aps, **data}, "headers": {
            "token": token.lower(), "apns-topic": self.running.app_id, "apns-push-type": "background" if silent else "alert", "apns-priority": "10" if wakes else "5",
            "apns-expiration": self.in_seconds(life) if life else "0", "apns-collapse-id": Matcher("match", NAME)}}

    def shown(self, name, delivery):
        if self.service:
            body = decode(delivery["payload"])
            return {"to": name, "headers": delivery["headers"], "payload": {"body": encode_url(body)} if body else {}}
        shown = super().shown(name, delivery)
        if message := self.data(shown).get("message"):
            self.phones[re.sub(" .*", "", name)].kept = message
        return shown

    @staticmethod
    def data(arrival):
        """What the app gets."""
        return arrival["payload"]["message"]["data"] if "message" in arrival["payload"] and isinstance(arrival["payload"]["message"], dict) else arrival["payload"]

    def texts(self, count):
        """Waits for so many, and opens all that have arrived."""
        return [getattr(self, arrival["to"]).open(self.data(arrival)).decode() for arrival in self.arrived(count)]

    # What goes wrong.

    def refuse(self, phone, status, **more):
        """What its provider answers from now on."""
        if self.service:
            raise Unsupported("the way to its phones is its own")
        self.simulator.answer(phone.token, status, **more)

    def outage(self):
        """Nobody can be reached for a while. What Google may have is not soon sent again, so that it says that it has nothing."""
        if self.service:
            raise Unsupported("the way to its phones is its own")
        return self.simulator.faults(apns={"outage": True}, fcm={"status": 503})
