"""The objects of a Nextcloud push proxy's cases: phones with an account each, and their server, which signs."""

import base64
import functools
import hashlib
import re
import secrets
import time
import urllib.parse

import worlds
from conformance.matching import ABSENT, Matcher
from conformance.nextcloud import AGENTS, app_of, encode, encrypt, key, pem, php, sha512_hex, sign, token
from conformance.phones import fcm_recipient, installation_id


class Phone:
    """An account of an app on a phone, and what its server has made for it: an identifier that the user's key signs."""

    def __init__(self, name):
        self.name, self.app = name, app_of(name)
        self.preimage = php([f"{name}@cloud.example.org/nextcloud", secrets.randbits(40)]).encode()
        self.identifier = encode(hashlib.sha512(self.preimage).digest())
        self.token, self.another_token, self.installation_id = token(self.app), token(self.app), installation_id()
        self.notifications = {}

    @property
    def agent(self):
        return AGENTS[self.app]

    @property
    def user_key(self):
        return pem(key("user").public_key())

    @property
    def signature(self):
        return self.signed("user")

    def signed(self, by, bits=2048):
        """The identifier's signature."""
        return sign(key(by, bits), self.preimage)

    def owner(self, by="user", bits=2048):
        return {"deviceIdentifier": self.identifier, "deviceIdentifierSignature": self.signed(by, bits),
                "userPublicKey": pem(key(by, bits).public_key())}

    def form(self, by="user", token="token", bits=2048):
        """POST /devices."""
        return {"pushToken": getattr(self, token), **self.owner(by, bits)}

    @property
    def hash(self):
        return sha512_hex(self.token)

    def notification(self, number=1, by="user"):
        """(subject, signature): another number is another encryption."""
        if (number, by) not in self.notifications:
            ciphertext = encrypt('{"nid":%d,"app":"spreed"}' % number, key("device"))
            self.notifications[number, by] = (encode(ciphertext), sign(key(by), ciphertext))
        return self.notifications[number, by]

    @property
    def sealed(self):
        return self.notification()[0]

    @property
    def sealed_signature(self):
        return self.notification()[1]

    def entry(self, number=1, by="user", token=None, **members):
        subject, signature = self.notification(number, by)
        made = {
            "deviceIdentifier": self.identifier, "pushTokenHash": sha512_hex(getattr(self, token or "token")), "subject": subject,
            "signature": signature, "priority": "high", "type": "alert", **members}
        return {name: value for name, value in made.items() if value != "absent"}

    @property
    def plain_entry(self):
        return self.entry()

    @property
    def addresses(self):
        """What the simulator knows it by, each with the name that cases have for it."""
        found = {}
        for token, what in (
                (self.token, ""), (self.another_token, " at its other token"), (self.installation_id, " at its installation id")):
            first, *second = token.split(" ")
            found[first] = self.name + what
            if second:
                found[second[0]] = f"{self.name} for calls{what}"
        return found


class World(worlds.World):
    body_type = "application/x-www-form-urlencoded"

    def __init__(self, running, simulator):
        super().__init__(running, simulator)
        self.more = {}

    def __getattr__(self, name):
        if app_of(name) not in AGENTS:
            raise AttributeError(f"the world has no {name}")
        made = self.phones[name] = Phone(name)
        setattr(self, name, made)
        return made

    @functools.cached_property
    def other_key(self):
        return pem(key("other").public_key())

    # What cases make.

    def make_device(self, argument):
        """The form of POST /devices: `!device talk_ios`, `!device [talk_ios, {by: other, token: another_token}]`."""
        name, options, changes = (*argument, {})[:3] if isinstance(argument, list) else (argument, {}, {})
        made = {**getattr(self, name).form(**options), **changes}
        return {name: value for name, value in made.items() if value != "absent"}

    def make_owner(self, argument):
        """The form of DELETE /devices."""
        form = self.make_device(argument)
        form.pop("pushToken")
        return form

    def make_php(self, value):
        return php(value)

    def make_entry(self, argument):
        """An entry of `notifications`: `!entry talk_ios`, `!entry [talk_ios, {number: 2, by: other, priority: normal}]`."""
        name, options = argument if isinstance(argument, list) else (argument, {})
        return getattr(self, name).entry(**options)

    def make_signed_by(self, argument):
        """The signature of a phone's identifier by another key: `!signed_by [talk_ios, other]`."""
        return getattr(self, argument[0]).signed(argument[1])

    def make_hashed_twice(self, name):
        """The signature of who takes the identifier for the text."""
        phone = getattr(self, name)
        return sign(key("user"), hashlib.sha512(phone.preimage).digest())

    def make_of_size(self, argument):
        """A registration of a user whose key has so many bits: `!of_size [talk_ios, 4096]`."""
        name, bits = argument
        return getattr(self, name).form(bits=bits)

    def make_entry_of_size(self, argument):
        phone = getattr(self, argument[0])
        return phone.entry(signature=sign(key("user", argument[1]), base64.b64decode(phone.sealed)))

    def make_lower_first(self, tokens):
        """The first of two tokens in lower case."""
        return tokens.split(" ")[0].lower()

    def make_zeros(self, count):
        return encode(bytes(count))

    def make_many(self, argument):
        """`!many [20001, x]`: that many fields."""
        count, text = argument
        return urllib.parse.urlencode([("notifications[]", text)] * count)

    def make_query(self, pairs):
        """A form whose names may be there twice."""
        return urllib.parse.urlencode([tuple(pair) for pair in pairs])

    # Steps before a case.

    def step(self, words):
        match words:
            case [name, "is", "registered"]:
                return self.register(getattr(self, name))
            case [name, "is", "registered", "by", by]:
                return self.register(getattr(self, name), by=by)
        raise ValueError(f"no such step: {words}")

    def later(self, seconds):
        return int((time.time() + seconds) * 1000)

    def register(self, phone, **options):
        return self.send({"request": "POST /devices", "as": phone.name, "form": phone.form(**options)})

    def unregister(self, phone, **options):
        return self.send({"request": "DELETE /devices", "as": phone.name, "form": phone.owner(**options)})

    def notify(self, *entries):
        return self.send({"request": "POST /notifications", "form": {
            f"notifications[{index}]": entry for index, entry in enumerate(entries)}})

    # Requests and answers.

    def send(self, request):
        """`as` is the phone that asks, `server` for one, or `nobody` without a User-Agent. Objects in a form are texts of JSON."""
        _, path = request["request"].split(" ", 1)
        headers = dict(request.get("headers", {}))
        who = request.get("as", "server")
        if "User-Agent" not in headers and who != "nobody":
            headers["User-Agent"] = "Nextcloud-Server-Crawler/33.0.0" if who == "server" else getattr(self, who).agent
        return self.call(request, path, headers)

    def encoded(self, form):
        return urllib.parse.urlencode({name: php(value) if isinstance(value, (dict, list)) else value for name, value in form.items()})

    def wanted(self, answer):
        """`ok`, `{refused: 400}` with a message for people, `{taken: {unknown, failed}}`, `{plain: 400}` with a text, or all of it."""
        if answer == "ok":
            return {"status": 200, "body": {}}
        if "refused" in answer:
            return {"status": answer["refused"], "body": {"message": Matcher("text")}, "headers": answer.get("headers", {})}
        if "taken" in answer:
            return {"status": 200, "body": {"unknown": [], "failed": 0, **answer["taken"]}}
        if "plain" in answer:
            return {"status": answer["plain"], "body": Matcher("match", "[^{].+"), "headers": {
                "Content-Type": Matcher("match", "text/plain.*"), **answer.get("headers", {})}}
        return answer

    # What arrives.

    @property
    def names(self):
        return {**self.more, **{address: name for phone in self.phones.values() for address, name in phone.addresses.items()}}

    def expect_more(self, tokens):
        """Tokens that a case makes itself."""
        self.more.update(dict.fromkeys(tokens, "another"))

    def make_arrival(self, argument):
        """What a phone gets of `!entry`: `!arrival talk_ios`, `!arrival [talk_ios, {number: 2, priority: normal, type: voip}]`."""
        name, options = argument if isinstance(argument, list) else (argument, {})
        phone = getattr(self, name)
        subject, signature = phone.notification(options.get("number", 1), options.get("by", "user"))
        priority, kind, to = options.get("priority", "high"), options.get("type", "alert"), getattr(phone, options.get("token", "token"))
        place = phone.addresses[to.split(" ")[0]]
        if "ios" not in phone.app:
            android = {"priority": priority, **({"ttl": "60s"} if kind == "voip" else {})}
            return {"to": place, "payload": {"message": {
                **fcm_recipient(to), "data": {"subject": subject, "signature": signature}, "android": android}}}
        bundle = {"talk_ios": "com.nextcloud.Talk", "files_ios": "it.twsweb.Nextcloud"}[phone.app]
        if kind == "voip" and " " in to:
            return {"to": re.sub(name, f"{name} for calls", place, count=1), "payload": {"aps": {}, "subject": subject, "signature": signature}, "headers": {
                "token": to.split(" ")[1].lower(), "apns-topic": bundle + ".voip", "apns-push-type": "voip", "apns-priority": "10",
                "apns-expiration": self.in_seconds(60)}}
        aps = {"content-available": 1} if kind == "background" else {
            "alert": {"loc-key": "NEW_NOTIFICATION"}, "mutable-content": 1, "sound": "default"}
        return {"to": place, "payload": {"aps": aps, "subject": subject, "signature": signature}, "headers": {
            "token": to.split(" ")[0].lower(), "apns-topic": bundle,
            "apns-expiration": self.in_seconds({"voip": 60, "background": 86400}[kind]) if kind in ("voip", "background") else ABSENT,
            "apns-push-type": "background" if kind == "background" else "alert",
            "apns-priority": "10" if kind != "background" and priority == "high" else "5", "apns-collapse-id": signature[:43]}}
