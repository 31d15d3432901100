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
    alert_removals        true: removals reach iPhones as alerts
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
"""


import secrets
import urllib.parse
import uuid

from conformance import http
from conformance.simulator import Simulator


class Unsupported(Exception):
    """The implementation, or its adapter, cannot do what a case wants: the case is skipped."""


class Implementation:
    #: The suites that it is tried with: zulip_bouncer, zulip_server, nextcloud_proxy, nextcloud_server.
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
    #: Whether the next case gets another one: its clock was moved, or its database lost.
    is_spent = False

    def last_words(self):
        """The end of its log where its process has ended, else None: the next case then gets another one."""
        return None

    def bouncer_key(self):
        """The bouncer's public key in base64, which phones seal to."""
        raise Unsupported("the adapter knows no bouncer key")

    def add_server(self, hostname):
        """(id, key) of a new chat server: registers one, as every server does, else has the operator let it in."""
        id, key = str(uuid.uuid4()), secrets.token_hex(32)
        answer = http.send(self.url, "POST", "/api/v1/remotes/server/register", {"Content-Type": "application/x-www-form-urlencoded"}, urllib.parse.urlencode({
            "zulip_org_id": id, "zulip_org_key": key, "hostname": hostname, "contact_email": "operator@example.org"}).encode(), self.ca_file)
        return (id, key) if answer.status == 200 else self.admit_server(hostname)

    def admit_server(self, hostname):
        """(id, key) of a new chat server that the operator admits, independent of the rules for others."""
        raise Unsupported("the adapter lets no chat servers in")

    def add_user(self, name):
        """A new user of a server: an object with `login`, `email` and `key`, the API key of the account."""
        raise Unsupported("the adapter adds no users")

    def add_app_password(self, user):
        """(password, number) of a new app password."""
        raise Unsupported("the adapter adds no app passwords")

    def change_user(self, user, **members):
        """Another `api_key`, for example."""
        raise Unsupported("the adapter changes no users")

    def remove_user(self, user):
        raise Unsupported("the adapter removes no users")

    def grant_login(self, user, token):
        """Lets an app in that waits, by the last part of the address that it opened in the browser."""
        raise Unsupported("the adapter grants no logins")

    def require_encryption(self, wanted):
        """Whether old apps get nothing in the realm of the users."""
        raise Unsupported("the adapter changes no realm")

    def rename_realm(self, name):
        """Gives the realm of the users another name; it begins as `Conformance`."""
        raise Unsupported("the adapter changes no realm")

    def release_realm(self, uuid):
        """Lets a realm go: the next server that names it gets it."""
        raise Unsupported("the adapter releases no realms")

    def add_bouncer_key(self):
        """Another key pair that phones seal to; its public key in base64."""
        raise Unsupported("the adapter makes no bouncer keys")

    def retire_bouncer_key(self, key):
        """It still opens, and no new app gets it."""
        raise Unsupported("the adapter retires no bouncer keys")

    def remove_bouncer_key(self, key):
        raise Unsupported("the adapter removes no bouncer keys")

    def notify(self, user, parts):
        """The host application sends a notification, as Documentation/OpenAPI/Backend.yaml has it; the answer to it."""
        raise Unsupported("the adapter plays no host application")

    def trust(self, ca_pem):
        """Trusts a certificate authority where a chat server proves its hostname."""
        raise Unsupported("the adapter cannot make it trust a certificate")

    def without_database(self):
        """A context in which its database is away."""
        raise Unsupported("the adapter cannot take its database away")

    def lose_database(self):
        """Starts it again with an empty database, without telling it so."""
        raise Unsupported("the adapter cannot empty its database")

    def kill(self):
        """Ends it at once, as kill -9 does."""
        raise Unsupported("the adapter cannot kill it")

    def restart(self):
        """Starts it again after `kill`, or ends it in good order first; at the same address, with all that it knew."""
        raise Unsupported("the adapter cannot restart it")

    def restart_later(self, seconds):
        """Ends it in good order and starts it again with a clock that is so far ahead of the machine's."""
        raise Unsupported("the adapter cannot set its clock")

    def stop(self):
        pass


class All:
    def __contains__(self, name):
        return True


ALL = All()
