"""What the programs here share: checks, calls of JSON services, and the service with a chat server that it knows."""

import functools
import json
import secrets
import types
import urllib.parse

from adapters.push_bouncer import Service
from conformance import http, phones
from conformance.phones import basic, encode


class Mismatch(Exception):
    """Something is not as it should be."""


def check(what, ok, detail=""):
    if not ok:
        raise Mismatch(f"{what}: {detail}" if detail != "" else what)
    print(f"ok   {what}", flush=True)


class Caller:
    """Calls an HTTP service that answers in JSON, with these credentials."""

    def __init__(self, base, authorization=None):
        self.base, self.authorization = base, authorization

    def __call__(self, method, path, *, form=None, body=None, status=200):
        headers, data = {"Authorization": self.authorization} if self.authorization else {}, None
        if form is not None:
            headers["Content-Type"], data = "application/x-www-form-urlencoded", urllib.parse.urlencode(form).encode()
        elif body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        answer = http.send(self.base, method, urllib.parse.urlsplit(self.base).path + path, headers, data)
        if answer.status != status:
            raise Mismatch(f"{method} {path.split('?')[0]} answered {answer.status}, not {status}: {answer.body}")
        return answer.body


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
