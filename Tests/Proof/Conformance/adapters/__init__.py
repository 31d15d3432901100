"""The suites' interface to an implementation: one file each, with a class `Implementation` made from this one.

Settings have names of our own, so that cases need not know an implementation's:

    registration          "open" (the default) or "closed": who may register as a chat server
    allowed_hostnames     a list of hostnames and `*.` domains that may while it is closed
    verify_hostnames      true: a new server proves its hostname
    verify_private        false: not at a private address
    calls_per_address     "20/60s": calls without credentials; 0 (the default): no limit
    calls_per_server      "20/60s": authenticated calls; 0 (the default): no limit
    calls_per_user        "3/1h": calls of one user of the chat-server side and of the Nextcloud server
    notifications_per_server  "2/1s": pace of one server's notifications
    body_limit            "64 KiB": body of a request
    bodies_in_flight      "1 MiB": bodies of all requests together
    deadline              "500ms": how long a notify request waits for Apple and Google (10s, so
                          that a busy machine changes no count)
    max_age               "10s": how long a notification is tried
    web_push              false: no Web Push
    bouncer_private_key   in base64: the only key that phones seal to, in the place of one of its own making
    bouncer               "local" (the default), "off", or "played": at the address and with the credentials of
                          conformance.bouncer.shared().settings
    removals_as_alerts        true: removals reach iPhones as alerts
    nextcloud             false: no Nextcloud push proxy and server side
    new_devices_per_address  "2/1h": new devices at the push proxy
    proxy_calls_per_address  "2/1h": calls to the push proxy
    default_app           "Talk for Android": what the push proxy takes an unknown app for
    apps                  the operator's own entries of apps, as in Documentation/GettingStarted/NextcloudBrand.md
    proxy_deadline        "500ms": how long the push proxy waits for Apple and Google
    padding               "PKCS1": of what the Nextcloud server sends to phones
    local_proxies         false: phones may name no proxy on this machine
    default_proxy         the proxy of phones that name none; "played": conformance.proxy.shared().url + "/default"
    subscription_server   the proxy that gets the key; "played": conformance.proxy.shared().url + "/subscribed"
    subscription_key      the key
    webpush_browsers      true: logins without an app password may subscribe to Web Push, too
    gateway               false: no Web Push gateway
    gateway_deadline      "500ms": how long the gateway waits for Apple and Google
    gateway_calls_per_address  "4/1h": calls to the gateway
    new_subscriptions_per_address  "2/1h": new subscriptions at the gateway
"""


import secrets
import urllib.parse
import uuid

from conformance import http
from conformance.simulator import Simulator


class Unsupported(Exception):
    """The implementation, or its adapter, cannot do what a case wants: the case is skipped."""


class Implementation:
    #: The suites that it is tried with: zulip_bouncer, zulip_server, nextcloud_proxy, nextcloud_server,
    #: webpush_gateway.
    roles = ()
    #: The names of options.yaml that it claims; ALL for every one.
    claims = ()

    #: Whether all that is started is the same one: cases that let Apple fail are then in each other's way, and come one
    #: after the other.
    is_shared = False

    @staticmethod
    def simulator(program):
        """The fake of Apple and Google; one is started unless the implementation is connected to another already."""
        return Simulator(program)

    def __init__(self, program, simulator):
        """`program` is the push-bouncer executable, `simulator` a conformance.simulator.Simulator."""
        self.program, self.simulator = program, simulator

    def start(self, settings):
        """A Running with these settings; Unsupported where one of them cannot be had."""
        raise NotImplementedError

    def stop(self):
        """The tests are over."""


#: What a Running may have in addition: a case that calls what it has not is skipped.
OPTIONAL = {
    "bouncer_key()": "the bouncer's public key in base64, which phones seal to",
    "admit_server(hostname)": "(id, key) of a new chat server that the operator admits, independent of the rules for others",
    "add_user(name)": "a new user of a server: an object with `login`, `email` and `key`, the API key of the account",
    "add_app_password(user)": "(password, number) of a new app password",
    "change_user(user, **members)": "another `api_key`, for example",
    "remove_user(user)": "",
    "grant_login(user, token)": "lets an app in that waits, by the last part of the address that it opened in the browser",
    "require_encryption(wanted)": "whether old apps get nothing in the realm of the users",
    "rename_realm(name)": "gives the realm of the users another name; it begins as `Conformance`",
    "deactivate_server(id)": "the operator switches a chat server off",
    "reactivate_server(id)": "the operator switches it on again",
    "release_realm(uuid)": "lets a realm go: the next server that names it gets it",
    "add_bouncer_key()": "another key pair that phones seal to; its public key in base64",
    "retire_bouncer_key(key)": "it still opens, and no new app gets it",
    "remove_bouncer_key(key)": "",
    "notify(user, parts)": "the host application sends a notification, as Documentation/OpenAPI/Backend.yaml has it; the answer to it",
    "without_database()": "a context in which its database is away",
    "lose_database()": "starts it again with an empty database, without telling it so",
    "kill()": "ends it at once, as kill -9 does",
    "restart()": "starts it again after `kill`, or ends it in good order first; at the same address, with all that it knew",
    "restart_later(seconds)": "ends it in good order and starts it again with a clock that is so far ahead of the machine's",
}


class Running:
    """An implementation that runs."""

    #: Where it is, without a slash at the end.
    url = None
    #: The app id that its Apple credential serves.
    app_id = None
    #: The Firebase project of its Google credential.
    project = "push-bouncer-simulator"
    #: The CA file with which its certificate is checked; None for the system's.
    ca_file = None
    #: For a push service that has other calls for apps than those of WebPush.md: an object whose `subscribe(key)` gives the
    #: `endpoint` of a new subscription for this VAPID key (None: for all), and its `id` at the simulator, where its messages
    #: arrive. What only apps of the gateway can do is then skipped.
    push_service = None
    #: Whether the next case gets another one: its clock was moved, or its database lost.
    is_spent = False

    def last_words(self):
        """The end of its log where its process has ended, else None: the next case then gets another one."""
        return None

    def add_server(self, hostname):
        """(id, key) of a new chat server: registers one, as every server does, else has the operator let it in."""
        id, key = str(uuid.uuid4()), secrets.token_hex(32)
        answer = http.send(self.url, "POST", "/api/v1/remotes/server/register", {"Content-Type": "application/x-www-form-urlencoded"}, urllib.parse.urlencode({
            "zulip_org_id": id, "zulip_org_key": key, "hostname": hostname, "contact_email": "operator@example.org"}).encode(), self.ca_file)
        return (id, key) if answer.status == 200 else self.admit_server(hostname)

    def stop(self):
        pass

    def __getattr__(self, name):
        if any(call.startswith(f"{name}(") for call in OPTIONAL):
            raise Unsupported(f"the adapter has no {name}")
        raise AttributeError(name)


class All:
    def __contains__(self, name):
        return True


ALL = All()
