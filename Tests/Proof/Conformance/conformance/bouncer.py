"""A bouncer for chat servers to call: it records calls, and answers as a case says."""

import functools
import json
import time
import urllib.parse
import uuid

from .played import Played, next_of

PUSH = "/api/v1/remotes/"


def success(**members):
    return 200, {"result": "success", "msg": "", **members}


def refused(code, status=400, msg="No."):
    return status, {"result": "error", "msg": msg, "code": code}


DEFAULTS = {
    "push/e2ee/register": success(),
    "push/e2ee/notify": success(
        apple_successfully_sent_count=0, android_successfully_sent_count=0, delete_token_ids=[], realm_push_status=None),
    "push/notify": success(
        total_apple_devices=0, total_android_devices=0, deleted_devices={"apple_devices": [], "android_devices": []}, realm=None),
    "push/register": success(), "push/unregister": success(), "push/unregister/all": success(),
    "push/test_notification": success(), "server/analytics": success(realms={}),
    "server/analytics/status": success(last_realm_count_id=0, last_installation_count_id=0, last_realmauditlog_id=0),
}


class Bouncer(Played):
    settings = {"org_id": str(uuid.UUID(int=0x12345678123446788123456781234567)), "org_key": "k" * 64}

    def __init__(self):
        self.calls, self.answers = [], {}
        #: When each of the calls came.
        self.times = []
        #: The forms of calls that were answered with success, so that nobody calls again.
        self.taken = []
        super().__init__()
        self.settings = {**self.settings, "bouncer": self.url}

    def answer(self, method, path, headers, body):
        call = path.split("?")[0].removeprefix(PUSH)
        form = json.loads(body) if body[:1] == b"{" else dict(urllib.parse.parse_qsl(body.decode()))
        with self.changed:
            # An answer may be for one token alone, since servers go on with the tokens of earlier cases.
            queued = self.answers.get((call, form.get("token_id"))) or self.answers.get((call, None))
            answer = next_of(queued) if queued else DEFAULTS.get(call, refused("NOT_FOUND", 404))
            self.times.append(time.monotonic())
            self.calls.append((call, form, headers))
            if answer[0] == 200 and not isinstance(answer[1], str):
                self.taken.append(json.dumps(form))
            self.changed.notify_all()
        return answer

    def told(self, call, enough=lambda form: True, count=1):
        """The calls of a kind for which `enough` is true, once there are so many."""
        def found():
            return [form for name, form, _ in self.calls if name == call and enough(form)]

        assert self.until(lambda: len(found()) >= count), f"{call} was never called so often"
        return found()

    def count(self, tokens):
        """The number of calls taken that name one of these tokens or token ids."""
        return sum(any(token in form for token in tokens) for form in self.taken)


@functools.cache
def shared():
    return Bouncer()
