"""Ten thousand push services on one machine: a name server, nginx for those that live, and four ways to be dead."""

import asyncio
import contextlib
import multiprocessing
import socket
import subprocess
import time
from pathlib import Path

from cryptography import x509

from conformance.played import certificate

PORT = 8443
NAME_SERVER, REFUSING, HANGING = "127.0.0.53", "127.2.0.1", "127.3.0.1"
# The addresses of the first push service, of the other immortal ones, and of all others while they live.
STEADY, QUIET, LIVING = "127.0.1.1", "127.1.1.1", "127.1.0.1"
DOMAINS = 100
# The number of push services that never die. The first of them also keeps its connections.
IMMORTAL = 10


def name(number):
    """The name of a push service. There are a hundred domains, so that no limit per domain is measured."""
    return f"h{number // DOMAINS}.d{number % DOMAINS}.tt"


def number_of(name):
    host, domain, _ = name.split(".")
    return int(host[1:]) * DOMAINS + int(domain[1:])


class NameServer(asyncio.DatagramProtocol):
    """The name server. Of every four dead push services one has no name, for one there is no answer, one has an address
    that refuses connections, and one has an address that takes connections and never answers."""

    def __init__(self, dead):
        self.dead = dead

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, query, sender):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        question, kind = query[12:at + 5], int.from_bytes(query[at + 1:at + 3])
        address, status = LIVING, 0
        try:
            number = number_of(".".join(labels).lower())
            if number < IMMORTAL:
                address = QUIET if number else STEADY
            if self.dead.value and number >= IMMORTAL:
                if number % 4 == 1:
                    return
                status = 3 if number % 4 == 0 else 0
                address = REFUSING if number % 4 == 2 else HANGING
        except ValueError:
            status = 3
        answer = b""
        if kind == 1 and not status:
            # The answer is valid for a second, so that a death is noticed soon.
            answer = b"\xc0\x0c\x00\x01\x00\x01" + (1).to_bytes(4) + b"\x00\x04" + bytes(map(int, address.split(".")))
        head = query[:2] + (0x8180 + status).to_bytes(2) + b"\x00\x01" + (len(answer) > 0).to_bytes(2) + bytes(4)
        self.transport.sendto(head + question + answer, sender)


def serve_names(dead):
    async def serve():
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: NameServer(dead), local_addr=(NAME_SERVER, 53))
        # Takes connections and never answers.
        await asyncio.start_server(lambda *_: asyncio.sleep(3600), HANGING, PORT, backlog=4096)
        await asyncio.sleep(3600)

    asyncio.run(serve())


class PushServices:
    """All push services. `folder` gets nginx's configuration and its log of arrivals; `keys` has the authority that signs
    their certificate."""

    def __init__(self, nginx, folder, keys, processes, stack):
        self.nginx, self.folder, self.processes = nginx, folder, processes
        self.dead = multiprocessing.Value("b", 0)
        names = multiprocessing.Process(target=serve_names, args=(self.dead,), daemon=True)
        names.start()
        stack.callback(names.kill)
        resolver = folder / "resolv.conf"
        resolver.write_text(f"nameserver {NAME_SERVER}\noptions timeout:2 attempts:1\n")
        subprocess.run(["mount", "--bind", resolver, Path("/etc/resolv.conf").resolve()], check=True)
        domains = (x509.DNSName(f"*.d{number}.tt") for number in range(DOMAINS))
        (folder / "certificate.pem").write_bytes(certificate(keys, *domains))
        self.log = folder / "arrived.log"
        self.start(STEADY)
        self.quiet, self.living = self.start(QUIET), self.start(LIVING)

    def start(self, address):
        folder, configuration = self.folder, self.folder / f"{address}.conf"
        # nginx gives this folder to another user.
        temporary = " ".join(f"{kind}_temp_path {folder}/nginx;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        configuration.write_text(f"""
            daemon off; master_process off; pid {folder}/{address}.pid; worker_rlimit_nofile 40000;
            events {{ worker_connections 30000; }}
            http {{
              log_format arrived "$host"; access_log {self.log} arrived;
              {temporary} keepalive_requests 1000000; keepalive_timeout 600s;
              server {{
                listen {address}:{PORT} ssl http2 backlog=4096;
                ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/certificate.pem;
                return 201;
              }}
            }}""")
        process = self.processes.start([self.nginx, "-c", configuration, "-p", folder, "-e", folder / "error.log"])
        for _ in range(100):
            with contextlib.suppress(OSError):
                socket.create_connection((address, PORT)).close()
                return process
            time.sleep(0.1)
        raise SystemExit((folder / "error.log").read_text())

    def die(self):
        """Ends all but the immortal ones. Their former address refuses connections, since the service connects there when
        the name server does not answer."""
        self.dead.value = 1
        self.processes.stop(self.living)
        self.disconnect()

    def disconnect(self):
        """Ends the connections of all immortal ones but the first."""
        self.processes.stop(self.quiet)
        self.quiet = self.start(QUIET)

    def arrived(self):
        with open(self.log, "rb") as log:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: log.read(1 << 20), b""))
