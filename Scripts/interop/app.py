"""What the programs here share: checks, calls of JSON services, and the service with a chat server that it knows."""

import functools
import json
import secrets
import time
import types
import urllib.error
import urllib.parse
import urllib.request

from adapters.push_bouncer import Service
from conformance import phones
from conformance.phones import basic, encode

TIMEOUT = 60


class Mismatch(Exception):
    """Something is not as it should be."""


def check(what, ok, detail=""):
    if not ok:
        raise Mismatch(f"{what}: {detail}" if detail != "" else what)
    print(f"ok   {what}", flush=True)


def wait(what, condition):
    """The first value of `condition` that is true."""
    deadline = time.monotonic() + TIMEOUT
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Mismatch(what)
        time.sleep(0.05)
    return value


class Caller:
    """Calls an HTTP service that answers in JSON, with these credentials."""

    def __init__(self, base, authorization=None):
        self.base, self.authorization = base, authorization

    def __call__(self, method, path, *, form=None, body=None, status=200):
        request = urllib.request.Request(self.base + path, method=method)
        if self.authorization:
            request.add_header("Authorization", self.authorization)
        if form is not None:
            request.data = urllib.parse.urlencode(form).encode()
        elif body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                code, answer = response.status, json.load(response)
        except urllib.error.HTTPError as error:
            code, answer = error.code, json.loads(error.read())
        if code != status:
            raise Mismatch(f"{method} {path.split('?')[0]} answered {code}, not {status}: {answer}")
        return answer


class Program(Service):
    """The service, with the calls of a chat server that its operator has let in."""

    @functools.cached_property
    def chat_realm(self):
        return phones.realm()

    @functools.cached_property
    def remotes(self):
        call = Caller(self.url + "/api/v1/remotes", basic(*self.admit_server("chat.example.org")))
        call("POST", "/server/analytics", form=phones.upload(self.chat_realm))
        return call

    def phone(self, kind, token=None):
        made = phones.Phone(kind, types.SimpleNamespace(running=self, bouncer_key=self.bouncer_key()))
        made.token = token or made.token
        return made

    def register(self, phone):
        form = {name: value for name, value in phone.token_fields.items() if name != "token_kind"}
        self.remotes("POST", "/push/e2ee/register", form={"realm_uuid": self.chat_realm["uuid"], **form})

    def notify_phones(self, *items):
        return self.remotes("POST", "/push/e2ee/notify", body={"realm_uuid": self.chat_realm["uuid"], "push_requests": items})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def item(phone, encrypted=None):
    """A notification for a phone."""
    return phones.item(phone.token_id, phone.kind, {
        "push_key_id": phone.push_key_id, "encrypted_data": encode(encrypted or secrets.token_bytes(300))})
