"""What the machine does when its power is cut. A life is one machine, from its setting up to its end, with some cuts."""

import contextlib
import json

from service import Broken, expect

KEY_FIELDS = {"public_key", "private_key", "created_at", "state"}


class Scenario:
    """`life` yields after each cut that has done no harm."""

    # How many operations there are about, between which cuts are spread.
    span = 400

    def __init__(self, machine, service):
        self.machine, self.service = machine, service
        # How many cuts came before what was done had ended.
        self.within = 0

    def prepare(self):
        """Sets up what each life begins with."""

    @contextlib.contextmanager
    def cut(self, random, span=None):
        """The power is cut after a number of operations, or if there are not as many at the end of what is done."""
        self.machine.boot(self.moment(random, span or self.span))
        yield
        self.within += self.machine.is_cut
        self.manner = self.machine.lose_power(random).manner

    def killed_before(self, random, act):
        """Does something once or twice: the first time it may be killed, which leaves all that it has written in the cache."""
        if random.random() < 0.3:
            act()
            if not self.machine.is_cut:
                return
            self.machine.stop()
            # Often after all that it does.
            self.machine.cut_after(self.moment(random, 2 * self.span))
        act()

    @contextlib.contextmanager
    def whole(self):
        """What is done with power."""
        self.machine.boot()
        yield
        self.machine.settle()

    @staticmethod
    def moment(random, span):
        # As many among the first operations as among all others.
        return random.randint(1, random.choice([span, span, max(1, span // 8)]))

    # Whole or absent.

    def check_files(self):
        """The configuration and the keys are whole or absent."""
        root = self.machine.root
        for path, begins, ends in [("push-bouncer.yaml", "#", "\n"), ("Keys/README.md", "#", "\n")]:
            path = root / path
            if path.exists():
                text = path.read_text()
                expect(text.startswith(begins) and text.endswith(ends), f"{path.name} is torn: {text[:40]!r} ... {text[-40:]!r}")
        for path in (root / "Keys/bouncer").glob("*.json"):
            with contextlib.suppress(ValueError):
                if json.loads(path.read_bytes()).keys() == KEY_FIELDS:
                    continue
            raise Broken(f"{path.name} is torn: {len(path.read_bytes())} bytes")
        path = root / "Keys/storage.key"
        if path.exists():
            expect(len((path.read_text().split() or [""])[0]) == 44, f"storage.key is torn: {len(path.read_bytes())} bytes")


class Load(Scenario):
    """The service is cut off while phones register and are notified, and starts again on what is left."""

    cuts_of_a_life = 20
    span = 2000

    def prepare(self):
        with self.whole():
            self.service.public_key = self.service.run("init")["public_key"]
        self.service.take_credentials()
        with self.whole():
            self.service.add_server()
            self.service.serve()
            expect(self.service.upload_realm(), "the realm is refused")
            self.service.end()

    def life(self, random, cuts):
        for _ in range(cuts):
            with self.cut(random):
                if self.service.serve():
                    self.service.load(random.random(), 2)
                    self.within += not self.machine.is_cut
            self.check_files()
            self.service.check_file()
            yield
        with self.whole():
            self.service.fulfil()
        self.service.check_file()


class Init(Scenario):
    """`init` is cut off, perhaps twice, and run again. It may have been killed just before."""

    cuts_of_a_life = 2

    def life(self, random, cuts):
        shown, outputs = None, []
        for _ in range(cuts):
            with self.cut(random):
                self.killed_before(random, lambda: outputs.append(self.service.run("init")))
            for output in outputs:
                shown = self.agree(shown, output)
            self.check_files()
            yield
        with self.whole():
            self.agree(shown, self.service.run("init"))
            expect(self.service.run("keys", "list")["keys"], "there is no key")
        self.check_files()

    @staticmethod
    def agree(shown, output):
        key = output and output["public_key"]
        expect(not shown or not key or shown == key, f"{shown} was shown, and {key} is the key now")
        return shown or key


class Start(Scenario):
    """The first start of the service, which makes the storage key and the schema."""

    cuts_of_a_life = 2
    span = 300

    def life(self, random, cuts):
        for _ in range(cuts):
            with self.cut(random):
                self.killed_before(random, self.service.serve)
            self.check_files()
            yield
        with self.whole():
            self.service.serve()
            self.service.end()


class Keys(Load):
    """Key pairs are made and retired, servers are added, and the storage key is changed."""

    cuts_of_a_life = 5
    # How many operations each command makes.
    spans = {"generate": 8, "retire": 40, "server": 60, "rotate": 200}

    def prepare(self):
        super().prepare()
        with self.whole():
            self.service.serve()
            for kind in ["apns", "fcm"] * 20:
                self.service.register(kind)
            self.service.end()
        self.registered = dict(self.service.registered)

    def life(self, random, cuts):
        self.service.registered = dict(self.registered)
        states, servers = {self.service.public_key: "active"}, set()
        for _ in range(cuts):
            act = random.choice(list(self.spans))
            with self.cut(random, self.spans[act]):
                if act == "rotate":
                    self.rotate()
                elif act == "server":
                    name = f"s{len(servers)}-{random.getrandbits(32)}.example.org"
                    if self.service.run("server", "add", "--hostname", name):
                        servers.add(name)
                elif made := self.service.run("keys", "generate"):
                    states[made["public_key"]] = "active"
                    if act == "retire" and (retired := self.service.run("keys", "retire", self.service.public_key)):
                        states[retired["public_key"]] = retired["state"]
            self.check_files()
            self.service.check_file()
            yield
            with self.whole():
                if act == "rotate":
                    self.rotate()
                there = {key["public_key"]: key["state"] for key in self.service.run("keys", "list")["keys"]}
                for key, state in states.items():
                    expect(state in (there.get(key), "active") and key in there, f"{key} was {state}, and is {there.get(key)}")
                names = {server["hostname"] for server in self.service.run("server", "list")["servers"]}
                expect(servers <= names, f"servers that were shown are lost: {servers - names}")
                self.service.serve()
                ids = list(self.service.registered)
                self.service.notify(random.sample(ids, min(len(ids), 5)))
                self.service.end()
        with self.whole():
            expect(self.rotate()["unreadable"] == 0, "values do not open")
        with self.whole():
            self.service.fulfil()

    def rotate(self):
        return self.service.run("keys", "rotate-storage", "--silence", "0")
