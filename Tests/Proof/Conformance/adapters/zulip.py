"""Zulip's own bouncer, from a checkout of zulip/zulip that is provisioned for development (tools/provision), which has to be
run by somebody else than root.

    ZULIP_CHECKOUT=~/zulip Tests/Proof/Conformance/run --implementation zulip

**This adapter has never been run**: it was written from Zulip's public sources, and checked against them (manage.py,
zilencer/auth.py, zilencer/lib/push_notifications.py, zproject/dev_settings.py), where no checkout was to be had. What it
relies on is said beside it; the first who runs it will have to mend something. Registering a server looks up in DNS who
takes the mail of example.org.

It starts `manage.py runserver`, which tools/run-dev runs as well, with settings of its own on top of the development
settings: the simulator's credentials, a key pair for registrations, no rate limits; and it points aioapns and
firebase-admin at the simulator as Scripts/proof/interop/providers.py does, which is run with each test of push-bouncer.
PostgreSQL, memcached, Redis and RabbitMQ are those of the checkout, and its database gets the servers of the cases.
"""

import base64
import json
import os
import socket
import subprocess
import tempfile
import textwrap
import time
import urllib.parse
from pathlib import Path

import nacl.public

from conformance.limits import TIMEOUT

from . import Running, Unsupported
from . import Implementation as Base


SETTINGS = """
    from zproject.settings import *

    import json

    import aioapns.connection
    import firebase_admin.messaging

    with open({description!r}) as file:
        _apns = json.load(file)
    # zerver/lib/push_notifications.py makes its APNs client of these four, and its FCM app of the last; the topic is that of
    # each registration.
    APNS_TOKEN_KEY_FILE = {apns!r} + "/" + _apns["key_file"]
    APNS_TOKEN_KEY_ID = _apns["key_id"]
    APNS_TEAM_ID = _apns["team_id"]
    APNS_SANDBOX = False
    ANDROID_FCM_CREDENTIALS_PATH = {fcm!r}
    PUSH_REGISTRATION_ENCRYPTION_KEYS = {keys!r}
    ZILENCER_ENABLED = True
    # zilencer/auth.py else wants calls at the root domain of the installation.
    DEVELOPMENT_DISABLE_PUSH_BOUNCER_DOMAIN_CHECK = True
    RATE_LIMITING = False
    ALLOWED_HOSTS = ["*"]

    aioapns.connection.APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
    aioapns.connection.APNsProductionClientProtocol.APNS_PORT = {apns_port}
    firebase_admin.messaging._MessagingService.FCM_URL = {fcm_url!r} + "/v1/projects/{{0}}/messages:send"
"""


class Implementation(Base):
    roles = ("zulip_bouncer",)
    #: Of what may differ it has all answers in the same bytes: they are modelled on it.
    claims = ("envelope-bytes",)

    def start(self, settings):
        if settings:
            raise Unsupported(f"the adapter has no settings {', '.join(settings)}")
        return Service(self.simulator)


class Service(Running):
    app_id = "org.zulip.Zulip"

    def __init__(self, simulator):
        checkout = Path(os.environ["ZULIP_CHECKOUT"]).expanduser()
        self.folder = tempfile.TemporaryDirectory(prefix="conformance-zulip.")
        private = nacl.public.PrivateKey.generate()
        self.public_key, secret = (base64.b64encode(bytes(key)).decode() for key in (private.public_key, private))
        self.project = json.loads((simulator.keys / "fcm/default.json").read_text())["project_id"]
        Path(self.folder.name, "conformance_settings.py").write_text(textwrap.dedent(SETTINGS).format(
            description=str(simulator.keys / "apns/simulator.json"), apns=str(simulator.keys / "apns"),
            fcm=str(simulator.keys / "fcm/default.json"), keys={self.public_key: secret},
            apns_port=urllib.parse.urlsplit(simulator.apns).port, fcm_url=simulator.fcm))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [checkout / ".venv/bin/python", "manage.py", "runserver", "--noreload", "--skip-checks", f"127.0.0.1:{self.port}"], cwd=checkout,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "conformance_settings", "PYTHONPATH": self.folder.name,
                 # ssl, which aioapns uses, and requests, which firebase-admin uses.
                 "SSL_CERT_FILE": str(simulator.keys / "ca.pem"), "REQUESTS_CA_BUNDLE": str(simulator.keys / "ca.pem")})
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("Zulip does not start")
                time.sleep(0.2)

    def bouncer_key(self):
        return self.public_key

    def stop(self):
        self.process.terminate()
        self.process.wait(TIMEOUT)
        self.folder.cleanup()
