"""The service on a folder of its own, to be started, stopped and looked into."""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Service:
    """`before` are words that the command is put behind, such as those that give it another view of the machine."""

    def __init__(self, binary, keys, apns_port, fcm_port, before=()):
        self.binary = os.path.abspath(binary)
        self.folder = tempfile.TemporaryDirectory()
        self.database = Path(self.folder.name, "service.sqlite")
        # A folder of keys remembers the database that it was used with.
        self.keys = Path(shutil.copytree(keys, Path(self.folder.name, "Keys")))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [
            *before, self.binary, "serve", "--http.port", str(self.port), "--admin.port", "0", "--keys.directory", self.keys,
            "--providers.ca_file", self.keys / "ca.pem", "--database.url", f"sqlite:{self.database}",
            "--apns.endpoint", f"https://127.0.0.1:{apns_port}", "--fcm.endpoint", f"https://127.0.0.1:{fcm_port}",
            "--nextcloud.enabled", "true", "--log.format", "json"]

    def start(self, *options):
        self.log = open(Path(self.folder.name, "log"), "w+")
        self.process = subprocess.Popen([*self.command, *options], stderr=self.log, cwd=self.folder.name)
        # Nothing stays behind, wherever a check fails.
        atexit.register(self.process.kill)
        deadline = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"FAIL the service starts: {self.logged()}")
                time.sleep(0.1)

    def logged(self):
        return Path(self.folder.name, "log").read_text()

    @property
    def admin(self):
        """The address of the operator's listener."""
        lines = [json.loads(line) for line in self.logged().splitlines()]
        return f"http://127.0.0.1:{next(line['port'] for line in lines if line.get('listener') == 'admin')}"

    def megabytes(self):
        """Resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            sys.exit(f"FAIL the service ends in good order: {self.logged()}")

    def restart(self, *options):
        self.stop()
        self.start(*options)
