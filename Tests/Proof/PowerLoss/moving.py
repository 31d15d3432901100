"""Commands that move a whole service, and that are cut off in the middle of it."""

import contextlib
import re
import subprocess
from pathlib import Path

import scenarios
from service import expect

SCRIPTS = Path(__file__).resolve().parents[3] / "Scripts/proof"
# Rows that belong to a deployment and that a copy leaves out, and SQLite's own.
APART = re.compile(r"\w+ (INTO |FROM )?\W*(schema_migrations|nodes|node_bouncer_keys|sqlite_sequence)\b|.*VALUES\('(lease\.|write_check)")


class Copy(scenarios.Keys):
    """`copy` is cut off, perhaps twice, and started again, until both databases are the same."""

    cuts_of_a_life = 2
    span = 650
    # More than a page, so that a copy has many transactions.
    rows = 1200

    def prepare(self):
        super().prepare()
        self.service.change(f"""
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {self.rows})
            INSERT INTO registrations (wire, realm_id, token_id, kind, token, token_hash, registered_at)
            SELECT 1, 1, n, 2, zeroblob(64), n, 1 FROM numbers""")

    def life(self, random, cuts):
        source, target = self.service.file, self.machine.root / "copy.sqlite"
        command = ["copy", "--from", f"sqlite:{source}", "--to", f"sqlite:{target}"]
        self.service.registered = dict(self.registered)
        before, is_copied = self.dump(source), False
        for _ in range(cuts):
            with self.cut(random):
                is_copied |= self.service.run(*command) is not None
            self.service.check_file()
            expect(self.dump(source) == before, "copy has changed what it copies from")
            if is_copied:
                expect(self.dump(target) == before, "copy has ended, and what it has copied is not there")
            yield
        with self.whole():
            self.service.run(*command)
        other = {*self.dump(target)} ^ {*before}
        expect(not other, f"the copy is not the same: {sorted(other)[:2]}")

    def dump(self, file):
        with self.service.copied(file) as database:
            expect(database is not None, f"there is no {file.name}")
            expect(database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], f"{file.name} is broken")
            return sorted(line for line in database.iterdump() if not APART.match(line))


class Import(scenarios.Scenario):
    """`migrate zulip` is cut off, perhaps twice, and started again."""

    cuts_of_a_life = 2
    span = 1100
    rows = 3000

    def prepare(self):
        self.files = self.machine.folder / "zulip"
        self.files.mkdir()
        self.export()
        with self.whole():
            self.service.run("init")
        # What it comes to with power.
        self.machine.save()
        with self.whole():
            self.whole_outcome = self.outcome(self.bring())
        self.all = self.registrations()
        self.machine.reset()

    def export(self):
        """Writes the tables of a Zulip bouncer to files, with a database server that loses no power."""
        server = self.machine.folder / "server"
        url = subprocess.run([SCRIPTS / "postgresql", "start", server], check=True, capture_output=True, text=True).stdout.strip()
        try:
            subprocess.run([SCRIPTS / "zulip-fixture", url, str(self.rows)], check=True, capture_output=True)
            for table in ["remotezulipserver", "remoterealm", "remotepushdevice", "remotepushdevicetoken"]:
                copy = f"\\copy (SELECT * FROM zilencer_{table} ORDER BY 1) TO {self.files}/zilencer_{table}.csv CSV HEADER"
                subprocess.run(["psql", "--quiet", "--no-psqlrc", url, "-c", copy], check=True)
        finally:
            subprocess.run([SCRIPTS / "postgresql", "stop", server], capture_output=True)

    def life(self, random, cuts):
        is_brought = False
        for _ in range(cuts):
            with self.cut(random):
                is_brought |= self.bring() is not None
            self.service.check_file()
            # Another import brings old rows of numbers again, until it comes to those of the same users' UUIDs.
            expect(not is_brought or self.registrations() >= self.all, "the import has ended, and not all of it is there")
            yield
        with self.whole():
            outcome = self.outcome(self.bring())
        expect(outcome == self.whole_outcome, f"the import came to {outcome}, and with power to {self.whole_outcome}")
        expect(self.registrations() == self.all, "there are too many or too few registrations")

    def bring(self):
        return self.service.run("migrate", "zulip", "--from", str(self.files))

    def registrations(self):
        with self.service.copied() as database:
            return set(database.execute("SELECT wire, realm_id, server_id, user_id, user_uuid, token_hash FROM registrations"))

    @staticmethod
    def outcome(report):
        """The counts of each table, whether this run or an earlier one imported the rows."""
        brought = ["imported", "already_there", "merged_spellings", "merged_tokens"]
        return {table["table"]: (table["read"], sum(table[each] for each in brought), table["refused"]) for table in report["tables"]}
