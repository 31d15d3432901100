"""Any implementation that runs already; what it is, is said in the environment:

    CONFORMANCE_URL              where it is, such as https://push.example.org
    CONFORMANCE_ROLES            its suites, comma-separated (zulip_bouncer)
    CONFORMANCE_CLAIMS           names of options.yaml that it claims, or `all` (none)
    CONFORMANCE_CA_FILE          what its certificate is checked with (the system's)
    CONFORMANCE_BOUNCER_KEY      the public key in base64 that phones seal to
    CONFORMANCE_APP_ID           the app id that its Apple credential serves (org.example.chat)
    CONFORMANCE_PROJECT          the Firebase project of its Google credential (push-bouncer-simulator)
    CONFORMANCE_SERVER           ID:KEY of a chat server, where it registers none itself; cases then share it
    CONFORMANCE_OTHER_SERVER     the same of another
    CONFORMANCE_SIMULATOR        the control address of the simulator that it sends to, http://127.0.0.1:2198/_control
    CONFORMANCE_SIMULATOR_KEYS   the simulator's folder of keys
    CONFORMANCE_SIMULATOR_WEBPUSH   the address of its push service (https://127.0.0.1:2199)

Without the last three a simulator is started, which then has to be where the implementation sends to: its ports are free
ones, so this is of use only where nothing is sent. Cases that want other settings, a restart or a kill are skipped.
"""

import os

from conformance.simulator import Simulator

from . import ALL, Running, Unsupported
from . import Implementation as Base


def told(name, default=None):
    return os.environ.get(f"CONFORMANCE_{name}", default)


def names(text):
    return ALL if text == "all" else tuple(name.strip() for name in text.split(",") if name.strip())


class Implementation(Base):
    roles = names(told("ROLES", "zulip_bouncer"))
    claims = names(told("CLAIMS", ""))
    is_shared = True

    @staticmethod
    def simulator(program):
        if control := told("SIMULATOR"):
            return Simulator(program, control, told("SIMULATOR_KEYS", "Keys"), told("SIMULATOR_WEBPUSH", "https://127.0.0.1:2199"))
        return Simulator(program)

    def start(self, settings):
        if settings:
            raise Unsupported(f"other settings are not ours to make: {', '.join(settings)}")
        return Service()


class Service(Running):
    def __init__(self):
        self.url = told("URL", "").rstrip("/")
        assert self.url, "CONFORMANCE_URL says where the implementation is"
        self.ca_file = told("CA_FILE")
        self.app_id = told("APP_ID", "org.example.chat")
        self.project = told("PROJECT", "push-bouncer-simulator")

    def bouncer_key(self):
        if not told("BOUNCER_KEY"):
            raise Unsupported("CONFORMANCE_BOUNCER_KEY names no bouncer key")
        return told("BOUNCER_KEY")

    def add_server(self, hostname):
        if not told("SERVER"):
            return super().add_server(hostname)
        # The worlds' names of servers begin their hostnames.
        known = told("SERVER") if hostname.startswith("server-") else told("OTHER_SERVER")
        if not known:
            raise Unsupported("CONFORMANCE_OTHER_SERVER names no second chat server")
        return tuple(known.split(":", 1))
