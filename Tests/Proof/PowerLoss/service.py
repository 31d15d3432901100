"""push-bouncer on a machine that loses its power: what it has promised, and whether that is there."""

import contextlib
import http.client
import json
import random
import secrets
import shutil
import sqlite3
import threading
import time
import urllib.parse
import urllib.request
import uuid

from conformance import phones

TOPIC = "org.example.chat"
THREADS = 4


class Broken(AssertionError):
    """Something that was promised is not there, or the program does not work any more."""


def expect(condition, text):
    if not condition:
        raise Broken(text)


class Service:
    """The program on a machine, the chat server that uses it, and what that was promised."""

    def __init__(self, machine, binary, simulator, url=None):
        self.machine, self.binary, self.simulator = machine, binary, simulator
        self.file = None if url else machine.root / "push-bouncer.sqlite"
        self.settings = {
            "PUSH_BOUNCER_DATABASE_URL": url or f"sqlite:{self.file}",
            "PUSH_BOUNCER_APNS_ENDPOINT": simulator.apns, "PUSH_BOUNCER_FCM_ENDPOINT": simulator.fcm,
            "PUSH_BOUNCER_PROVIDERS_CA_FILE": str(simulator.keys / "ca.pem"), "PUSH_BOUNCER_LOG_LEVEL": "error",
            "PUSH_BOUNCER_BOUNCER_RATE_LIMIT_PER_SERVER": "0", "PUSH_BOUNCER_BOUNCER_NOTIFICATIONS_PER_SERVER": "0",
            "PUSH_BOUNCER_HTTP_PORT": "0", "PUSH_BOUNCER_ADMIN_PORT": "0", "PUSH_BOUNCER_DELIVERY_DEADLINE": "1s"}
        self.realm, self.public_key = str(uuid.uuid4()), None
        self.lock = threading.Lock()
        self.forget()

    def forget(self):
        """Forgets all promises, for a machine that was reset."""
        # Tokens by their ids, and the marks of notifications with their tokens.
        self.registered, self.promised = {}, {}

    # Commands.

    def run(self, *arguments):
        """Runs a command. Its output, None after a cut; it must not fail."""
        status, output, errors = self.machine.run([self.binary, *arguments, "--json"], self.settings)
        if status is None:
            return None
        expect(status == 0, f"{' '.join(arguments)} says {errors or output}")
        return json.loads(output)

    def take_credentials(self):
        """Copies Apple's and Google's keys to the machine, while it is off."""
        for name in ("apns", "fcm"):
            shutil.copytree(self.simulator.keys / name, self.machine.root / "Keys" / name, dirs_exist_ok=True)

    def add_server(self):
        server = self.run("server", "add", "--hostname", "chat.example.org")
        self.authorization = phones.basic(server["org_id"], server["org_key"])

    def serve(self, *options):
        """Starts the service. Returns whether it answers; False after a cut."""
        with open(self.machine.folder / "log", "w") as log:
            process = self.machine.start([self.binary, "serve", "--log.level", "notice", *options], self.settings, stderr=log, stdout=log)
        self.process = process
        return self.machine.until(self._answers, "the service")

    def _answers(self):
        log = (self.machine.folder / "log").read_text(errors="replace")
        expect(self.process.poll() is None, f"serve ends with {self.process.poll()}: {log[-2000:]}")
        ports = {name: port for name in ("public", "admin") for port in _port(log, name)}
        if len(ports) < 2:
            return False
        self.port, self.admin_port = ports["public"], ports["admin"]
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/healthz", timeout=5).status == 200
        return False

    # Load.

    def post(self, path, body, kind="application/json", timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("POST", f"/api/v1/remotes/{path}", body, {"Authorization": self.authorization, "Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()

    def post_form(self, path, fields):
        return self.post(path, urllib.parse.urlencode(fields), "application/x-www-form-urlencoded")

    def upload_realm(self):
        return self.post_form("server/analytics", phones.upload(phones.realm(uuid=self.realm)))[0] == 200

    def register(self, kind):
        token = phones.new_token(kind)
        sealed = phones.seal(self.public_key, phones.registration(token, kind, TOPIC))
        status, answer = self.post_form("push/e2ee/register", {
            "realm_uuid": self.realm, "token_id": phones.token_id(token), "bouncer_public_key": self.public_key,
            "encrypted_push_registration": sealed})
        expect(status == 200 or status >= 500, f"a registration is answered {status}: {answer}")
        if status == 200:
            with self.lock:
                self.registered[phones.token_id(token)] = (token, kind)

    def notify(self, ids):
        marks = {each: "mark" + secrets.token_hex(8) for each in ids}
        items = [phones.item(each, self.registered[each][1], {"push_key_id": 7, "encrypted_data": mark}) for each, mark in marks.items()]
        status, answer = self.post("push/e2ee/notify", json.dumps({"realm_uuid": self.realm, "push_requests": items}))
        expect(status == 200 or status >= 500, f"a notification is answered {status}: {answer}")
        if status == 200:
            expect(not answer["delete_token_ids"], f"registered phones are called dead: {answer}")
            with self.lock:
                self.promised.update({mark: self.registered[each][0] for each, mark in marks.items()})

    def load(self, seed, seconds):
        """Registers and notifies phones until the power is cut or the time is over, while providers come and go."""
        end, failures = time.monotonic() + seconds, []

        def going():
            return time.monotonic() < end and not self.machine.is_cut and not failures

        def call(number):
            chance = random.Random(f"{seed} {number}")
            while going():
                try:
                    with self.lock:
                        known = list(self.registered)
                    if not known or chance.random() < 0.4:
                        self.register(chance.choice(["apns", "fcm"]))
                    else:
                        self.notify(chance.sample(known, min(len(known), chance.randint(1, 3))))
                except (OSError, http.client.HTTPException, ValueError):
                    pass  # Cut off: nothing was promised.
                except Broken as broken:
                    failures.append(broken)

        # A call may wait for the machine for ever; it is cut off when the machine is.
        threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        chance = random.Random(f"{seed} outages")
        while going():
            self.simulator.call("PUT", "/faults", {"outage": chance.random() < 0.4})
            turn = time.monotonic() + 0.15
            while going() and time.monotonic() < turn:
                time.sleep(0.002)
        self.machine.stop()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    # What was promised.

    def missing(self):
        """The marks of promised notifications that have not arrived."""
        self.simulator.read()
        tokens = {self.simulator.key(token) for token in self.promised.values()}
        arrived = json.dumps([each["payload"] for token in tokens for each in self.simulator.arrived[token] if each["accepted"]])
        return [mark for mark in self.promised if mark not in arrived]

    def check_rows(self, registered, outbox):
        """`registered` are the token ids in the database, and `outbox` the number of notifications that wait."""
        lost = [each for each in self.registered if int.from_bytes(phones.decode(each), "big", signed=True) not in registered]
        expect(not lost, f"{len(lost)} of {len(self.registered)} registrations that were answered 200 are lost")
        missing = self.missing()
        expect(len(missing) <= outbox, f"{len(missing)} of {len(self.promised)} notifications that were answered 200 have not "
               f"arrived, and {outbox} wait in the outbox")

    def check_file(self):
        """Looks into SQLite's file after a cut, in a copy of it: opening it changes it."""
        if not self.file:
            return
        with self.copied() as database:
            if database is None:
                expect(not self.registered, "there is no database")
                return
            found = database.execute("PRAGMA integrity_check").fetchall()
            expect(found == [("ok",)], f"the database is broken: {found[:3]}")
            if database.execute("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'outbox'").fetchone()[0]:
                rows = {row for row, in database.execute("SELECT token_id FROM registrations")}
                self.check_rows(rows, database.execute("SELECT COUNT(*) FROM outbox").fetchone()[0])
            else:
                expect(not self.registered, "the database is empty")

    @contextlib.contextmanager
    def copied(self, file=None):
        file, folder = file or self.file, self.machine.folder / "look"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for each in file.parent.glob(file.name + "*"):
            shutil.copy(each, folder)
        if not (folder / file.name).exists():
            yield None
            return
        with contextlib.closing(sqlite3.connect(folder / file.name)) as database:
            try:
                yield database
            except sqlite3.Error as error:
                raise Broken(f"{file.name} is broken: {error}") from error

    def change(self, statement):
        """Changes SQLite's file, while the machine is off."""
        with contextlib.closing(sqlite3.connect(self.file)) as database:
            database.execute(statement)
            database.commit()

    def fulfil(self):
        """Lets the service run until all that was promised has arrived, and notifies every phone."""
        self.simulator.call("PUT", "/faults", {})
        # What was under way at a cut is taken over when nobody can answer it any more: a minute and a quarter later.
        self.serve("--clock-offset", "80s")
        ids = list(self.registered)
        for start in range(0, len(ids), 100):
            self.notify(ids[start:start + 100])
        expect(self.machine.until(lambda: not self.missing(), "promised notifications"), "cut")
        self.end()

    def end(self):
        """Stops the service in an orderly way."""
        self.process.terminate()
        expect(self.process.wait(60) == 0, "serve does not stop in order")


def _port(log, name):
    """The port that a listener has picked, from the log."""
    for line in log.splitlines():
        if "listening" in line and f"listener={name}" in line:
            yield int(line.rpartition("port=")[2].split()[0])
