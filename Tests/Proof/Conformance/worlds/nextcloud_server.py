"""The objects of a Nextcloud server's cases: users, apps that are signed in, and the proxy that their phones name."""

import contextlib
import functools
import json
import secrets
import urllib.parse

import worlds
from conformance import proxy
from conformance.cases import resolve
from conformance.matching import Matcher
from conformance.nextcloud import AGENTS, PADDINGS, app_of, key, pem, php, sha512_hex, verifies
from conformance.phones import basic, decode

USERS = ("alice", "bob")
#: User-Agent of each app, by the app's name in cases.
APPS = {"talk": AGENTS["talk_android"], "files": AGENTS["files_android"], "plain": "Plain/1.0", "web": AGENTS["talk_android"]}
PUSH = "apps/notifications/api/v2/push"
WEBPUSH = "apps/notifications/api/v2/webpush"


class App:
    """An app that is signed in with an app password of its own, on a phone with a key and a token."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.agent = APPS[app_of(name)]
        self.token = secrets.token_hex(40)
        self.told = None

    @functools.cached_property
    def password_and_id(self):
        return self.world.running.add_app_password(self.world.alice)

    @property
    def password(self):
        return self.password_and_id[0]

    @property
    def authorization(self):
        return basic(self.world.alice.login, self.password)

    @property
    def hash(self):
        return sha512_hex(self.token)

    @property
    def device_key(self):
        return pem(key("device").public_key())

    @property
    def another_device_key(self):
        return pem(key("another device").public_key())

    @property
    def form(self):
        return {"pushTokenHash": self.hash, "devicePublicKey": self.device_key, "proxyServer": self.world.proxy}

    # Web Push.

    @functools.cached_property
    def subscribed(self):
        vapid = self.world.send({"request": f"GET {WEBPUSH}/vapid", "as": self.name}).body["ocs"]["data"]["vapid"]
        made = self.world.simulator.subscribe(vapid)
        self.world.subscribed[made.id] = self
        return made

    @property
    def endpoint(self):
        return self.subscribed.endpoint

    @property
    def address(self):
        return self.subscribed.id

    @property
    def point(self):
        return self.subscribed.keys["p256dh"]

    @property
    def secret(self):
        return self.subscribed.keys["auth"]

    @property
    def subscription(self):
        return {"endpoint": self.endpoint, "uaPublicKey": self.point, "auth": self.secret, "appTypes": "all"}

    def read(self, delivery):
        return json.loads(self.subscribed.open(decode(delivery["payload"])))


class World(worlds.World):
    def __init__(self, running, simulator):
        super().__init__(running, simulator)
        self.web_expected, self.apps, self.subscribed = 0, {}, {}
        self.place = secrets.token_hex(8)
        self.peer = proxy.shared()
        self.proxy = f"{self.peer.url}/{self.place}"

    @property
    def names(self):
        return {id: app.name for id, app in self.subscribed.items()}

    def close(self, name):
        super().close(name)
        self.peer.settle(name, self.place)

    def __getattr__(self, name):
        if name in USERS:
            made = self.running.add_user(f"{name}-{secrets.token_hex(6)}")
            made.authorization = basic(made.login, made.key)
            made.agent = "Browser/1.0"
        elif app_of(name) in APPS:
            made = self.apps[name] = App(self, name)
        else:
            raise AttributeError(f"the world has no {name}")
        setattr(self, name, made)
        return made

    @functools.cached_property
    def web_origin(self):
        return self.simulator.webpush

    # What cases make.

    def make_bearer(self, name):
        return "Bearer " + getattr(self, name).password

    def make_garbled(self, key):
        """A key in PEM whose base64 is none, as long and with the same lines."""
        first, *lines, last = key.strip().split("\n")
        return "\n".join([first, *("!" * len(line) for line in lines), last])

    def make_activation(self, name):
        """What a new subscription gets."""
        return {"to": name, "payload": {"activationToken": Matcher("match", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")}}

    def make_php(self, value):
        return php(value)

    def make_list(self, numbers):
        return list(range(*numbers))

    # Steps before a case.

    def prepare(self, step):
        if isinstance(step, dict) and "proxy" in step:
            # `proxy: [[503, ""], [200, {...}]]`: its next answers; the last one stays.
            self.peer.answers[self.place] = [tuple(answer) for answer in resolve(step["proxy"], self)]
            return
        super().prepare(step)

    def step(self, words):
        match words:
            case [name, "is", "registered"]:
                return self.register(getattr(self, name))
            case [name, "is", "subscribed"]:
                return self.subscribe(getattr(self, name))
            case [name, "is", "subscribed", "to", apps]:
                return self.subscribe(getattr(self, name), appTypes=apps)
        raise ValueError(f"no such step: {words}")

    def register(self, app, **changes):
        answer = self.send({"request": f"POST {PUSH}", "as": app.name, "form": {**app.form, **changes}})
        if answer.status < 300:
            app.told = answer.body["ocs"]["data"]
        return answer

    def subscribe(self, app, **changes):
        """Subscribes and activates; the token for that is what has arrived."""
        answer = self.send({"request": f"POST {WEBPUSH}", "as": app.name, "form": {**app.subscription, **changes}})
        assert answer.status == 201, answer.body
        token = self.web_arrived(1)[-1]["payload"]["activationToken"]
        return self.send({"request": f"POST {WEBPUSH}/activate", "as": app.name, "form": {"activationToken": token}})

    def notify(self, part):
        return self.send({"request": "HOST notifications", "json": part})

    # Requests and answers.

    def send(self, request):
        """A path without a slash is below /ocs/v2.php/, and answered in JSON. `HOST notifications` is the host application's."""
        method, path = request["request"].split(" ", 1)
        if method == "HOST":
            return self.running.notify(self.alice, {"nextcloud": request["json"]})
        who = request.get("as", "talk")
        headers = dict(request.get("headers", {}))
        if who != "nobody":
            caller = getattr(self, who) if isinstance(who, str) else who
            headers.setdefault("Authorization", caller.authorization)
            headers.setdefault("User-Agent", caller.agent)
        query = dict(request.get("query", {}))
        if not path.startswith("/"):
            path = "/ocs/v2.php/" + path
            headers.setdefault("OCS-APIRequest", "true")
            if "Accept" not in headers:
                query.setdefault("format", "json")
        if headers.get("OCS-APIRequest") == "":
            del headers["OCS-APIRequest"]
        answer = self.call({**request, "query": query}, path, headers)
        self.last_tag = answer.header("ETag")
        if path.startswith("/ocs/v2.php/" + PUSH) and method == "POST" and answer.status < 300:
            self.apps[who].told = answer.body["ocs"]["data"]
        return answer

    def encoded(self, form):
        return urllib.parse.urlencode(form, doseq=True)

    def wanted(self, answer):
        """`{ocs: data}` with `status`, `{failure: CODE}`, `{receipt: {...}}` of the host application, or all of it."""
        if answer == "unauthorized":
            return {"status": 401, "body": {"ocs": {"meta": {"status": "failure", "statuscode": 997, "message": "Current user is not logged in"}, "data": []}}}
        status = answer.get("status", 200)
        headers = answer.get("headers", {})
        if "ocs" in answer:
            return {"status": status, "headers": headers, "body": {"ocs": {
                "meta": {"status": "ok", "statuscode": status, "message": "OK"}, "data": answer["ocs"]}}}
        if "failure" in answer:
            status = answer.get("status", 400)
            return {"status": status, "headers": headers, "body": {"ocs": {
                "meta": {"status": "failure", "statuscode": answer.get("statuscode", status), "message": Matcher("any")},
                "data": {"message": answer["failure"]} if isinstance(answer["failure"], str) else answer["failure"]}}}
        if "receipt" in answer:
            told = {"url": self.proxy, "status": 200, "sent": 0, "failed": 0, "unknown": 0, "queued": 0, **answer["receipt"]}
            return {"status": 200, "body": {"nextcloud": {"devices": told.pop("devices", 1), "proxies": [told]}}}
        if "nobody" in answer:
            return {"status": 200, "body": {"nextcloud": {"devices": 0, "proxies": []}}}
        return answer

    # What arrives.

    def arrived(self, expected):
        """What has come for the apps since the last time, opened: at the proxy, or at the push service for apps called web."""
        def count(requests):
            return sum(len(proxy.entries(request)) for request in requests if request["status"] == 200)

        web = sum(1 for app in self.apps if app_of(app) == "web")
        if not web:
            requests = self.peer.wait(self.place, lambda requests: count(requests) >= self.expected + expected)
        else:
            requests = list(self.peer.requests[self.place])
        found = [self.opened(request, entry) for request in requests if request["status"] == 200 for entry in proxy.entries(request)]
        new, self.expected = found[self.expected:], len(found)
        if web:
            new += self.web_arrived(expected - len(new))
        return new

    def web_arrived(self, expected):
        deliveries = self.simulator.wait(list(self.subscribed), self.web_expected + max(expected, 0))[self.web_expected:]
        self.web_expected += len(deliveries)
        return [{"to": self.subscribed[delivery["token"]].name, "headers": delivery["headers"],
                 "payload": self.subscribed[delivery["token"]].read(delivery)} for delivery in deliveries]

    def opened(self, request, entry):
        """As the phone opens it: the user's key has signed the ciphertext, the device's key opens it."""
        assert list(entry) == ["deviceIdentifier", "pushTokenHash", "subject", "signature", "priority", "type"], entry
        app = next(app for app in self.apps.values() if app.told and app.told["deviceIdentifier"] == entry["deviceIdentifier"])
        assert entry["pushTokenHash"] == app.hash, "another token's hash"
        subject = decode(entry["subject"])
        assert len(subject) == 256 and verifies(app.told["publicKey"], entry["signature"], subject), "the user's key has not signed it"
        # As apps do it.
        for padding in ("OAEP", "PKCS1"):
            with contextlib.suppress(ValueError):
                plain = key("device").decrypt(subject, PADDINGS[padding])
                break
        return {"to": app.name, "payload": json.loads(plain), "headers": {
            **request["headers"], "call": request["call"], "priority": entry["priority"], "type": entry["type"],
            "bytes": len(plain), "padding": padding}}
