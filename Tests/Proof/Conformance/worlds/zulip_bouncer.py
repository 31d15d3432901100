"""The objects of a Zulip bouncer's cases: chat servers, realms, phones, and the envelope of answers."""

import base64
import functools
import json
import re
import secrets
import time
import urllib.parse
import uuid

import nacl.public
import yaml

import worlds
from conformance import http
from conformance.matching import Matcher
from conformance.phones import Phone, Subscription, encode, encode_url, fcm_recipient, item, realm, registration, seal, token_id, upload
from conformance.rules import DOCUMENTS

REMOTES = "/api/v1/remotes/"
CAN_PUSH = {"can_push": True, "expected_end_timestamp": None}
PROPERTIES = (
    "messages_sent:is_bot:hour", "messages_sent:message_type:day", "messages_sent:client:day", "messages_in_stream:is_bot:day",
    "ai_credit_usage::day", "active_users_audit:is_bot:day", "upload_quota_used_bytes::day", "messages_read::hour",
    "messages_read_interactions::hour", "1day_actives::day", "7day_actives::day", "15day_actives::day", "minutes_active::day",
    "realm_active_humans::day")

ORG_TYPES = (0, 10, 20, 30, 35, 40, 50, 60, 70, 80, 90, 100, 1000)
EVENT_TYPES = (101, 102, 103, 104, 105, 201, 202, 229)
# Null where there is nothing to say.
REGISTRATION_MEMBERS = yaml.safe_load((DOCUMENTS.parent / "OpenAPI/Bouncer.yaml").read_text())[
    "components"]["schemas"]["RegistrationStatus"]["required"]


class Server:
    """A chat server with its credentials and, once one asks for it, a realm."""

    def __init__(self, world, name):
        self.world = world
        self.hostname = f"{name}-{secrets.token_hex(6)}.example.org"
        self.contact = "operator@example.org"
        self.realms = []

    @functools.cached_property
    def credentials(self):
        return self.world.running.add_server(self.hostname)

    @property
    def id(self):
        return self.credentials[0]

    @property
    def key(self):
        return self.credentials[1]

    @key.setter
    def key(self, key):
        self.credentials = (self.id, key)

    @property
    def word(self):
        return encode(f"{self.id}:{self.key}".encode())

    @property
    def authorization(self):
        return "Basic " + self.word

    @property
    def upper(self):
        return self.hostname.upper()

    @functools.cached_property
    def realm_item(self):
        """Its realm as the server uploads it."""
        return realm()

    @property
    def realm_with_another_secret(self):
        return {**self.realm_item, "uuid_owner_secret": "another"}

    @property
    def deactivated_realm(self):
        return {**self.realm_item, "deactivated": True}

    @functools.cached_property
    def realm(self):
        """The UUID of a realm that the bouncer has been told of."""
        self.upload(self.realm_item)
        return self.realm_item["uuid"]

    def upload(self, *realms):
        """Tells the bouncer of all realms of the server."""
        answer = self.call("POST", "server/analytics", form=upload(*realms))
        assert answer.status == 200, f"a realm could not be uploaded: {answer.status} {answer.body}"
        return answer

    def call(self, method, path, **request):
        return self.world.send({"request": f"{method} {REMOTES}{path}", "as": self, **request})

    # What stories do all the time.

    def register(self, phone, **changes):
        """A phone's encrypted registration."""
        return self.call("POST", "push/e2ee/register", form={
            "realm_uuid": self.realm, "token_id": phone.token_id, "bouncer_public_key": phone.bouncer_key,
            "encrypted_push_registration": phone.sealed(), **changes})

    def register_in_clear(self, phone, user, **changes):
        form = {**user, "token": phone.token, "token_kind": phone.legacy_kind, "realm_uuid": self.realm,
                "ios_app_id": phone.app_id, **changes}
        return self.call("POST", "push/register", form={name: value for name, value in form.items() if value is not None})

    def notify(self, *items, **changes):
        return self.call("POST", "push/e2ee/notify", json={"realm_uuid": self.realm, "push_requests": list(items), **changes})

    def notify_in_clear(self, user, **members):
        return self.call("POST", "push/notify", json={**user, "realm_uuid": self.realm, **members})


class World(worlds.World):
    def __init__(self, running, simulator):
        super().__init__(running, simulator)
        self.user = {"user_id": 10, "user_uuid": str(uuid.uuid4())}

    @property
    def names(self):
        return {phone.address: name for name, phone in self.phones.items()}

    # Names of cases: `server`, `other` and so on are chat servers, `apns`, `fcm`, `fid`, `web`, also with a number, are phones.

    def __getattr__(self, name):
        if name in ("server", "other", "third"):
            made = Server(self, name)
        elif name == "admitted":
            # Admitted by the operator, independent of the rules for others.
            made = Server(self, name)
            made.credentials = self.running.admit_server(made.hostname)
        elif re.fullmatch(r"(apns|fcm|fid|web)[0-9]*", name):
            made = self.phones[name] = Phone(name.rstrip("0123456789"), self)
        else:
            raise AttributeError(f"the world has no {name}")
        setattr(self, name, made)
        return made

    @functools.cached_property
    def bouncer_key(self):
        return self.running.bouncer_key()

    @functools.cached_property
    def now(self):
        return int(time.time())

    @functools.cached_property
    def vapid(self):
        """The key that phones subscribe with."""
        return http.send(self.running.url, "GET", "/api/v1/zulip-services/webpush/vapid", ca_file=self.running.ca_file).body["vapid"]

    @functools.cached_property
    def uuid(self):
        return str(uuid.uuid4())

    @property
    def own_subscription(self):
        """A token with a subscription at a push service that has not created it."""
        return Subscription("https://localhost:4443/x").token

    @functools.cached_property
    def other_uuid(self):
        return str(uuid.uuid4())

    @functools.cached_property
    def address_end(self):
        """A unique end of an IPv6 address."""
        return f"{secrets.randbelow(0xefff) + 0x1000:x}:{secrets.randbelow(0xefff) + 0x1000:x}"

    @functools.cached_property
    def realms_of_all_types(self):
        return [realm(id=number, org_type=kind) for number, kind in enumerate(ORG_TYPES)]

    @property
    def can_push_of_all_types(self):
        return {item["uuid"]: CAN_PUSH for item in self.realms_of_all_types}

    @functools.cached_property
    def unused_hostname(self):
        return f"new-{secrets.token_hex(6)}.example.org"

    @property
    def now_with_fraction(self):
        return float(self.now)

    @property
    def now_text(self):
        return str(self.now)

    #: Tokens, as long as they may be and a byte longer; a text.
    longest = "x" * 1024
    too_long = "x" * 1025
    long = "12.0 " * 200

    # What cases make: `!sealed {token: c0ffee, ...}`.

    def make_sealed(self, content):
        """In a box to the bouncer, in base64: an object as JSON, a text as it is."""
        return seal(self.bouncer_key, content)

    def make_registration_of(self, token):
        """The form of a registration of an FCM token, whatever it is."""
        return {"realm_uuid": self.server.realm, "bouncer_public_key": self.bouncer_key, "token_id": token_id(token),
                "encrypted_push_registration": seal(self.bouncer_key, registration(token, "fcm", None))}

    def make_registration_body(self, token_id):
        """The form of a registration of the token `c0ffee`, in which the token id stands as it is."""
        sealed = seal(self.bouncer_key, registration("c0ffee", "fcm", None))
        return urllib.parse.urlencode({
            "realm_uuid": self.server.realm, "bouncer_public_key": self.bouncer_key, "encrypted_push_registration": sealed}) + f"&token_id={token_id}"

    def make_subscribed(self, changes):
        """The same of a subscription with changed members."""
        return self.make_registration_of(self.web.subscription(**changes))

    def make_url_bytes(self, argument):
        first, count = argument
        return encode_url(bytes([first]) + bytes(count - 1))

    def make_sized(self, argument):
        """An item whose payload has so many bytes, as its provider counts them."""
        name, size, *changes = argument
        phone = getattr(self, name)
        if phone.kind == "fcm" and not phone.is_web:
            # Names and values.
            return self.make_item([name, {"payload": {"push_key_id": 1, "encrypted_data": "x" * (size - len("push_key_id1encrypted_data"))}}])
        payload = {"push_key_id": 1, "encrypted_data": ""} | ({} if phone.is_web else {"aps": {}})
        payload["encrypted_data"] = "x" * (size - len(json.dumps(payload, separators=(",", ":"))))
        return self.make_item([name, {"payload": payload, **(changes[0] if changes else {})}])

    def make_sealed_to_another(self, content):
        return seal(encode(bytes(nacl.public.PrivateKey.generate().public_key)), content)

    def make_tampered(self, box):
        data = bytearray(base64.b64decode(box))
        data[-1] ^= 1
        return encode(bytes(data))

    def make_broken_lines(self, text):
        return "\r\n".join(text[index:index + 20] for index in range(0, len(text), 20))

    def make_all_properties(self, _):
        """A row for each property that is kept of a realm."""
        return json.dumps([
            {"id": number, "realm": 2, "property": name, "subgroup": None, "end_time": 1700000000, "value": 1}
            for number, name in enumerate(PROPERTIES, 1)])

    def make_all_event_types(self, _):
        return json.dumps([
            {"id": number, "realm": 2, "event_type": kind, "event_time": 1, "backfilled": False, "extra_data": None}
            for number, kind in enumerate(EVENT_TYPES, 1)])

    def make_many_rows(self, count):
        return json.dumps([
            {"id": number, "property": "messages_read::hour", "subgroup": None, "end_time": 1, "value": 1} for number in range(1, count + 1)])

    def make_token_id(self, token):
        return token_id(token)

    def make_success(self, counts):
        """What `push/e2ee/notify` answers: `!success [sent by Apple, by Google, gone ids ...]`."""
        apple, google, *gone = counts
        return {"success": {
            "apple_successfully_sent_count": apple, "android_successfully_sent_count": google, "delete_token_ids": gone,
            "realm_push_status": CAN_PUSH}}

    def make_totals(self, counts):
        """What `push/notify` answers: `!totals [Android, Apple]`, with members that are otherwise."""
        android, apple, *changes = counts
        return {"success": {
            "total_android_devices": android, "total_apple_devices": apple,
            "deleted_devices": {"android_devices": [], "apple_devices": []}, "realm": CAN_PUSH, **(changes[0] if changes else {})}}

    def make_zalgo(self, count):
        """A letter with so many combining characters."""
        return "x" + "\u0301" * count

    def make_numbers(self, count):
        return [1] * count

    def make_unhyphened(self, text):
        return text.replace("-", "")

    def make_deep(self, depth):
        """An object nested so deep."""
        value = {}
        for _ in range(depth - 1):
            value = {"x": value}
        return value

    def make_ago(self, seconds):
        return self.now - seconds

    def make_hex(self, text):
        return bytes.fromhex(text)

    def make_realm(self, changes):
        """A realm as a server uploads it."""
        return realm(**(changes or {}))

    def make_subscription(self, changes):
        """A token that is a Web Push subscription, with changed members."""
        return self.web.subscription(**(changes or {}))

    def make_item(self, argument):
        """An item of `push_requests` for a phone: `!item apns`, `!item [apns, {changes}]`."""
        name, changes = argument if isinstance(argument, list) else (argument, {})
        phone = getattr(self, name)
        payload = {"push_key_id": 10 if phone.kind == "apns" else 20, "encrypted_data": "c2VhbGVk"}
        return {**item(phone.token_id, phone.kind, payload), **changes}

    def make_items(self, argument):
        """`!items [apns, 1000]`: so many for one phone."""
        name, count = argument
        return [self.make_item(name)] * count

    def make_arrival(self, argument):
        """What the phone of `!item` receives."""
        phone = getattr(self, argument)
        payload = self.make_item(argument)["payload"]
        if phone.kind == "apns":
            return {"to": argument, "payload": payload, "headers": {
                "apns-topic": phone.app_id, "apns-push-type": "alert", "apns-priority": "10"}}
        data = {"push_key_id": "20", "encrypted_data": "c2VhbGVk"}
        if phone.is_web:
            return {"to": argument, "payload": payload, "headers": {"urgency": "high"}}
        return {"to": argument, "payload": {"message": {**fcm_recipient(phone.token), "data": data, "android": {"priority": "high"}}}}

    def make_in_clear(self, argument):
        """What a phone gets of `{"alert": "Hi"}` and `{"event": "message"}`."""
        phone = getattr(self, argument)
        if phone.kind == "apns":
            return {"to": argument, "payload": {"aps": {"alert": "Hi"}}, "headers": {"apns-topic": phone.app_id}}
        return {"to": argument, "payload": {"message": {**fcm_recipient(phone.token), "data": {"event": "message"}, "android": {"priority": "high"}}}}

    def make_ids(self, argument):
        first, last = argument
        return ",".join(str(number) for number in range(first, last + 1))

    def make_status(self, argument):
        """What push/status says at least of a phone's registration, with changes."""
        name, *changes = [argument] if isinstance(argument, str) else argument
        phone, time = getattr(self, name), self.make_time(None)
        wanted = dict.fromkeys(REGISTRATION_MEMBERS) | {
            "name": Matcher("match", "e2ee:[0-9]+"), "kind": "e2ee", "state": "unused", "advice": Matcher("text"),
            "provider": "webpush" if phone.is_web else phone.kind, "app": phone.app_id,
            "fcm_token_form": "registration_token" if phone.kind == "fcm" and not phone.is_web else None,
            "server": {"org_id": self.server.id, "hostname": self.server.hostname, "deactivated": False},
            "realm": {"uuid": self.server.realm, "host": Matcher("text"), "deactivated": False},
            "token_id": phone.token_id, "token_fingerprint": Matcher("match", "[0-9a-f]{8}"),
            "bouncer_key": Matcher("text"), "registered_at": time, "waiting": 0}
        return Matcher("has", wanted | (changes[0] if changes else {}))

    def make_legacy_status(self, name):
        """The same of a phone that is registered in clear."""
        return self.make_status([name, {
            "name": Matcher("match", "legacy:[0-9]+"), "kind": "legacy", "user": self.user["user_uuid"], "bouncer_key": None}])

    def make_route(self, name):
        """What it says of the way to a phone's provider, which works or was not used yet."""
        phone = getattr(self, name)
        return {"provider": "webpush" if phone.is_web else phone.kind, "target": phone.app_id or Matcher("text"),
                "status": Matcher("match", "ok|unknown"), "since": None, "reason": None, "meaning": None, "advice": None}

    def make_whole_status(self, argument):
        """The members of its answer: registrations, routes, and changes of the others."""
        registrations, routes, *changes = argument
        wanted = {
            "registrations": registrations, "next": None, "routes": routes,
            "last_24_hours": {"handed_in": 0, "refused": 0, "latest_refusals": [], "refused_registrations": []},
            "pace": {"notifications": Matcher("integer"), "seconds": Matcher("integer"), "delay_seconds": 0}}
        return wanted | (changes[0] if changes else {})

    def make_tomorrow(self, _):
        """A day from now, in seconds, give or take what a test may take."""
        day = int(time.time()) + 86400
        return Matcher("match", "|".join(str(second) for second in range(day - 60, day + 61)))

    # Steps before a case.

    def step(self, words):
        match words:
            case [phone, "is", "registered"]:
                return self.server.register(getattr(self, phone))
            case [phone, "is", "registered", "in", "clear"]:
                return self.server.register_in_clear(getattr(self, phone), self.user)
            case [phone, "is", "unregistered", "in", "clear"]:
                phone = getattr(self, phone)
                return self.server.call("POST", "push/unregister", form={**self.user, "token": phone.token, "token_kind": phone.legacy_kind})
            case [phone, "is", "notified"]:
                answer = self.server.notify(self.make_item(phone))
                self.arrived(0)
                return answer
            case [server, "is", "deactivated"]:
                return getattr(self, server).call("POST", "server/deactivate")
            case [server, "has", "a", "realm"]:
                assert getattr(self, server).realm
                return None
        raise ValueError(f"no such step: {words}")

    # Requests and answers.

    def send(self, request):
        _, path = request["request"].split(" ", 1)
        who = request.get("as", "server")
        headers = dict(request.get("headers", {}))
        if who != "nobody" and "Authorization" not in headers:
            headers["Authorization"] = (getattr(self, who) if isinstance(who, str) else who).authorization
        return self.call(request, path, headers)

    def wanted(self, answer):
        """`success`, `{success: {members}}`, `{error: msg, status:, code:, with: {members}, headers:}`, or all of it."""
        if answer == "success":
            answer = {"success": {}}
        headers = {"Content-Type": "application/json"}
        if "success" in answer:
            return {"status": 200, "headers": {**headers, **answer.get("headers", {})},
                    "body": {"result": "success", "msg": "", **answer["success"]}}
        if "error" in answer:
            status = answer.get("status", 400)
            if status == 401:
                headers["WWW-Authenticate"] = 'Basic realm="zulip"'
            return {"status": status, "headers": {**headers, **answer.get("headers", {})},
                    "body": {"result": "error", "msg": answer["error"], **answer.get("with", {}), "code": answer.get("code", "BAD_REQUEST")}}
        return answer

    # What arrives.

    def shown(self, name, delivery):
        return {**super().shown(name, delivery), "payload": self.phones[name].read(delivery)}


