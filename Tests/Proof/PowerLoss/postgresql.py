"""The service and its PostgreSQL server on one machine: both lose their power at the same moment."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import scenarios
from conformance.limits import TIMEOUT
from service import Service, expect

# The server's own default is not durable: the service has to ask for it. Small files make many checkpoints.
SETTINGS = {
    "listen_addresses": "", "fsync": "on", "full_page_writes": "on", "synchronous_commit": "off", "max_connections": "100",
    "shared_buffers": "16MB", "max_wal_size": "4MB", "min_wal_size": "2MB", "checkpoint_timeout": "30s", "autovacuum_naptime": "5s"}


class Load(scenarios.Load):
    span = 2500
    cuts_of_a_life = 10

    def __init__(self, machine, binary, simulator):
        self.data, self.sockets = machine.root / "data", machine.folder / "sockets"
        self.url = f"postgres:///postgres?host={self.sockets}&user=postgres"
        super().__init__(machine, Service(machine, binary, simulator, self.url))
        self.programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        # PostgreSQL does not run as root.
        self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.geteuid() == 0 else []

    def prepare(self):
        for folder in (self.data, self.sockets):
            folder.mkdir(mode=0o700)
            if self.as_user:
                shutil.chown(folder, "postgres", "postgres")
        subprocess.run(
            [*self.as_user, self.programs / "initdb", "--pgdata", self.data, "--username=postgres", "--auth=trust", "--encoding=UTF8",
             "--data-checksums", "--wal-segsize=1", "--no-sync"],
            check=True, capture_output=True, cwd=self.machine.root, env={**os.environ, "LC_ALL": "C.UTF-8"})
        with open(self.data / "postgresql.conf", "a") as file:
            file.write("".join(f"{name} = '{value}'\n" for name, value in {**SETTINGS, "unix_socket_directories": self.sockets}.items()))
        super().prepare()

    def clear(self):
        """Removes what the server leaves when it is cut off. It may be torn, and whoever starts the server removes it."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    @contextlib.contextmanager
    def whole(self):
        self.clear()
        with super().whole():
            self.start()
            yield

    def life(self, random, cuts):
        for _ in range(cuts):
            # The power may be cut again while the server still recovers.
            is_early = random.random() < 0.3
            self.clear()
            self.machine.boot(self.moment(random, 400) if is_early else 0)
            if self.start():
                if not is_early:
                    self.check()
                    self.machine.cut_after(self.moment(random, self.span))
                if self.service.serve():
                    self.service.load(random.random(), 3)
            # The load goes on until it is cut off.
            self.within += 1
            self.manner = self.machine.lose_power(random).manner
            self.check_files()
            yield
        with self.whole():
            self.check()
            self.service.fulfil()
            self.check()

    def start(self):
        """Starts the server. Returns whether it answers; False after a cut."""
        with open(self.machine.folder / "postgresql.log", "w") as log:
            server = self.machine.start(
                [*self.as_user, self.programs / "postgres", "-D", self.data], {"LC_ALL": "C.UTF-8"}, stdout=log, stderr=log)

        def answers():
            log = self.machine.folder / "postgresql.log"
            expect(server.poll() is None, f"PostgreSQL ends: {log.read_text(errors='replace')[-2000:]}")
            return self.ask("SELECT 1", fails=True) is not None

        return self.machine.until(answers, "PostgreSQL")

    def check(self):
        """Looks for what was promised, and reads everything, so that a wrong checksum is found."""
        rows = {int(row) for row in self.ask("SELECT token_id FROM registrations WHERE token_id IS NOT NULL")}
        self.service.check_rows(rows, int(self.ask("SELECT COUNT(*) FROM outbox")[0]))
        dump = subprocess.run([self.programs / "pg_dump", self.url], capture_output=True, text=True)
        expect(dump.returncode == 0, f"the database cannot be read: {dump.stderr}")

    def ask(self, query, fails=False):
        """The words of an answer. If it may fail, None after a failure, or if the server stands still."""
        command = ["psql", "--quiet", "--tuples-only", "--no-align", self.url, "-c", query]
        try:
            output = subprocess.run(command, capture_output=True, text=True, timeout=2 if fails else TIMEOUT)
        except subprocess.TimeoutExpired:
            expect(fails, f"PostgreSQL does not answer to {query}")
            return None
        if output.returncode and fails:
            return None
        expect(output.returncode == 0, f"PostgreSQL says {output.stderr}")
        return output.stdout.split()
