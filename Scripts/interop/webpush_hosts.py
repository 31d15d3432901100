"""Push services that fail, each beside one that works: what the service makes of them, and what it lets them do.

One hangs, one redirects to the inside, one answers ten gigabytes, one's name comes to mean a private address, and the
others answer what push services answer when something is wrong. Prints a line per check; exits 1 at the first that fails.

    webpush_hosts.py EXECUTABLE KEYS APNS_PORT FCM_PORT     the simulator's keys and ports
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import zulip
from app import Mismatch, check
from push_service import PushService, Subscription, hangs, never_ends, says
from service import Service
from webpush import Phone

NAME = "moves.push-bouncer.test"
PUBLIC, PRIVATE = "9.9.9.9", "127.0.0.1"
MEGABYTE = 1 << 20


class World:
    """A chat server with its bouncer, and a push service that works."""

    def __init__(self, service):
        self.service, self.keys = service, service.keys
        self.server, self.bouncer_key = zulip.stock_server(service.binary, service.url, service.keys, service.database)
        self.server.upload_realm()
        self.good = PushService(self.keys)
        self.neighbour = self.phone(self.good)

    def phone(self, push):
        phone = Phone(self.bouncer_key, push.subscribe())
        if (told := self.server.register(phone)) is not None:
            raise Mismatch(f"a subscription at {push.origin} is refused: {told}")
        return phone

    @contextlib.contextmanager
    def host(self, answer):
        """A push service that answers so, with two phones."""
        push = PushService(self.keys, answer)
        try:
            yield push, self.phone(push), self.phone(push)
        finally:
            push.close()

    def notify(self, what, *phones, sent=None, gone=()):
        """To these and the neighbour, who gets it whatever becomes of the others; how long the answer took."""
        start = time.monotonic()
        answer = self.server.notify([phone.item() for phone in (*phones, self.neighbour)])
        took = time.monotonic() - start
        self.neighbour.open(self.good.next())
        ended = [phone.token_id for phone in gone]
        check(f"{what}: who has ended", answer["delete_token_ids"] == ended, answer)
        if sent is not None:
            check(f"{what}: the count", answer["android_successfully_sent_count"] == sent + 1, answer)
        return took

    def keeps(self, what, push, phone):
        """It is still registered, and gets what is sent once its push service works."""
        push.answer = says(201)
        self.notify(f"{what}, and now works", phone)
        while phone.subscription.endpoint != push.origin + (request := push.next_taken()).path:
            pass
        check(f"{what}: keeps its registration", phone.open(request))


def refusals(world):
    for status in (404, 410):
        with world.host(says(status)) as (push, phone, _):
            world.notify(str(status), phone, sent=0, gone=[phone])
            check(f"{status}: is asked once", push.next() and push.idle())
    for status in (400, 413):
        with world.host(says(status)) as (push, phone, _):
            world.notify(str(status), phone, sent=0)
            check(f"{status}: is not tried again", push.next() and push.idle())
            world.keeps(str(status), push, phone)
    for status in (401, 403):
        with world.host(says(status)) as (push, phone, other):
            world.notify(str(status), phone)
            push.answer = says(201)
            check(f"{status}: may be mended: what waits arrives", phone.open(push.next_taken()))
            world.keeps(str(status), push, other)


def errors(world):
    with world.host(says(201)) as (push, phone, _):
        push.first = [says(500)]
        world.notify("500, then well", phone, sent=1)
        first, second = push.next(), push.next()
        check("500, then well: tried again at once", phone.open(second) and push.idle())
        check("500, then well: each try is encrypted anew", first.body[:86] != second.body[:86])
    with world.host(says(503)) as (push, phone, other):
        world.notify("503", phone)
        push.answer = says(201)
        check("503: what waits arrives", phone.open(push.next_taken()))
        world.keeps("503", push, other)
    with world.host(says(201)) as (push, phone, other):
        push.first = [says(429, Retry_After="8")]
        world.notify("429", phone)
        refused = push.next()
        took = world.notify("429, another of its phones", other)
        check("429: the other one gets its own at once", other.open(push.next()))
        late = push.next()
        waited = late.at - refused.at
        check("429: the subscription is left alone for as long as its host has said", waited >= 7.5, waited)
        check("429: then it arrives, once", phone.open(late) and push.idle())
        check("429: nobody waits for it", took < 2, took)


def refused_connections(world):
    with world.host(says(201)) as (push, phone, _):
        push.close()
        world.notify("nobody listens", phone)
        world.notify("nobody listens, again", phone)


def hanging(world):
    with world.host(hangs) as (push, phone, other):
        took = [world.notify("hangs", phone) for _ in range(5)]
        check("hangs: nobody waits longer than the deadline", max(took) < 4.5, took)
        check("hangs: after a few nobody waits at all", took[-1] < 1.5, took)
        check("hangs: bounded connections", push.connections <= 8, push.connections)
        push.answer = says(201)
        push.listener.closing.set()
        world.keeps("hangs", push, other)


def redirects(world):
    inside = PushService(None)
    for status in (301, 302, 303, 307, 308):
        for target in (f"{inside.origin}/inside", f"{world.service.admin}/inside-{status}"):
            with world.host(says(status, Location=target)) as (push, phone, _):
                world.notify(f"{status} to {'the operator' if 'inside-' in target else 'the inside'}", phone)
                push.answer = says(201)
                check(f"{status}: it arrives when the host works", phone.open(push.next_taken()))
    check("redirects: nobody has called inside", inside.connections == 0 and inside.idle(), inside.connections)
    check("redirects: nor the operator's listener", "/inside-" not in world.service.logged())
    inside.close()


def endless(world):
    for status in (201, 400, 404, 500):
        with world.host(never_ends(status)) as (push, phone, other):
            before = world.service.megabytes()
            for _ in range(4):
                world.notify(f"{status} that never ends", other, gone=[other] if status == 404 else [])
                if status == 404:
                    break
            deadline = time.monotonic() + 60
            while push.writing and time.monotonic() < deadline:
                time.sleep(0.1)
            check(f"{status} that never ends: it is hung up on", not push.writing)
            grown, read = world.service.megabytes() - before, push.written / MEGABYTE
            print(f"     {read:.1f} MB written of it on {push.connections} connections, memory grew by {grown:.1f} MB")
            check(f"{status} that never ends: little of it is read", read <= 8 * push.connections, read)
            check(f"{status} that never ends: memory stays", grown < 24, grown)


def moving(world, hosts):
    """A name that was public when its subscription was registered."""
    push = PushService(world.keys, name=NAME)
    phone = world.phone(push)
    refused = Phone(world.bouncer_key, Subscription(f"https://{PRIVATE}.nip.test/x"))
    hosts.write_text(hosts.read_text().replace(f"{PUBLIC} {NAME}", f"{PRIVATE} {NAME} {PRIVATE}.nip.test"))
    told = world.server.register(refused)
    check("moves: at a private address it would not have been taken", told == "BAD_REQUEST", told)
    world.notify("moves", phone)
    world.notify("moves, again", phone)
    check("moves: nobody has called the private address", push.connections == 0 and push.idle(), push.connections)
    metrics = urllib.request.urlopen(f"{world.service.admin}/metrics", timeout=60).read().decode()
    check("moves: the operator is told why", re.search('reason="forbiddenAddress"', metrics))
    push.close()


def own_hosts(folder):
    """Words that give a command an /etc/hosts of its own, which may change: only root can do that."""
    hosts = Path(folder, "hosts")
    hosts.write_text(Path("/etc/hosts").read_text() + f"\n{PUBLIC} {NAME}\n")
    before = ["unshare", "--mount", "--", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
    if os.geteuid() == 0 and subprocess.run([*before, "true"], capture_output=True).returncode == 0:
        return hosts, before
    return None, []


def main(binary, keys, apns_port, fcm_port):
    with tempfile.TemporaryDirectory() as folder:
        hosts, before = own_hosts(folder)
        service = Service(binary, keys, apns_port, fcm_port, before)
        service.start("--webpush.allow_private_hosts", PRIVATE, "--operator.email", "op@example.org")
        world = World(service)
        refusals(world)
        errors(world)
        refused_connections(world)
        hanging(world)
        redirects(world)
        endless(world)
        if hosts:
            moving(world, hosts)
        else:
            print("--   a name that changes was not tried: that takes root and unshare")
        service.stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (Mismatch, zulip.Refused, zulip.RetryLater) as error:
        sys.exit(f"FAIL {error}")
