"""Load on an HTTP service: as much as the service can answer (wrk), or at a fixed rate (open loop)."""

import asyncio
import contextlib
import dataclasses
import math
import subprocess
import time
import urllib.parse

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


@dataclasses.dataclass
class Load:
    """The result of a load. Latencies are in seconds. `requests` are those that were accepted, `refused` those with an answer
    that says no."""

    requests: int
    elapsed: float
    p50: float
    p99: float
    failures: str = ""
    refused: int = 0


# Each line of the file of requests has a path, and a body in hexadecimal, as a body may be any bytes.
SCRIPT = """
local requests, index = {{}}, 0
local function bytes(text) return (text:gsub("..", function(digits) return string.char(tonumber(digits, 16)) end)) end
for line in io.lines("{requests}") do
  local path, body = line:match("(%S+) (%S*)")
  requests[#requests + 1] = {{ path, bytes(body) }}
end
wrk.method = "POST"
{headers}
request = function()
  index = index % #requests + 1
  return wrk.format(nil, requests[index][1], nil, requests[index][2])
end
"""


def closed(folder, targets, connections, seconds):
    """Keeps so many requests under way: each answer is followed by the next request. One wrk runs for each target."""
    loads, start = [], time.monotonic()
    for number, target in enumerate(targets):
        requests, script = folder / f"requests{number}", folder / f"load{number}.lua"
        requests.write_text("\n".join(f"{path} {body.hex()}" for path, body in target.requests))
        headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in target.headers.items())
        script.write_text(SCRIPT.format(requests=requests, headers=headers))
        command = [
            "wrk", "-t1", f"-c{max(1, connections // len(targets))}", f"-d{seconds}s", "--timeout", "30s", "--latency",
            "-s", script, target.origin]
        loads.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    outputs = [load.communicate()[0].splitlines() for load in loads]
    elapsed = time.monotonic() - start
    lines = [line.strip() for output in outputs for line in output]

    def latency(percentile):
        texts = [line.split()[1] for line in lines if line.startswith(percentile)]
        if not texts:
            raise SystemExit("wrk says no latency:\n" + "\n".join(lines))
        return max(_seconds(text) for text in texts)

    requests = sum(int(line.split()[0]) for line in lines if " requests in " in line)
    refused = sum(int(line.split()[-1]) for line in lines if line.startswith("Non-2xx or 3xx responses:"))
    failures = " ".join(line for line in lines if "Socket errors" in line)
    return Load(requests - refused, elapsed, latency("50%"), latency("99%"), failures, refused)


def _seconds(text):
    number = text.rstrip("mush")
    return float(number) * SECONDS[text[len(number):]]


def open_loop(target, rate, seconds, connections=128):
    """Sends `rate` requests a second, each when it is due or, if no connection is free then, as soon as one is. A latency
    is measured from the time when the request was due, so that a stall counts for every request that was due meanwhile."""
    return _once(target, connections, rate, int(rate * seconds), seconds + 30)


def exactly(target, total, connections):
    """Sends so many requests, each as soon as a connection is free."""
    return _once(target, connections, math.inf, total)


def _once(target, connections, *arguments):
    with contextlib.closing(Connections(target.origin, connections)) as opened:
        return opened.send(target, *arguments)


class Connections:
    """Connections to an origin, which stay open from one load to the next."""

    def __init__(self, origin, count):
        self.url, self.count, self.free = urllib.parse.urlparse(origin), count, []
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.open())

    def close(self):
        for connection in self.free:
            connection.transport.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def send(self, target, rate, total, limit=600, at_once=math.inf):
        """Sends so many requests at this rate, and waits for the answers, `limit` seconds at most."""
        return self.loop.run_until_complete(self._send(target, rate, total, limit, at_once))

    async def open(self):
        """Opens what is missing: the service closes idle connections."""
        while len(self.free) < self.count:
            await self.loop.create_connection(lambda: Connection(self), self.url.hostname, self.url.port)

    async def _send(self, target, rate, total, limit, at_once):
        requests = [_request(self.url, target, path, body) for path, body in target.requests]
        self.latencies, self.failures = [], []
        # Those that were closed in the meantime are noticed first.
        await asyncio.sleep(0.01)
        await self.open()
        start, sent = self.loop.time(), 0
        while len(self.latencies) < total and self.loop.time() < start + limit:
            now = self.loop.time()
            while sent < total and start + sent / rate <= now and self.free and sent - len(self.latencies) < at_once:
                self.free.pop().send(requests[sent % len(requests)], start + sent / rate)
                sent += 1
            await asyncio.sleep(0.001)
        elapsed = self.loop.time() - start
        latencies, missing = self.latencies, total - len(self.latencies)
        latencies += [elapsed] * missing
        latencies.sort()
        at = lambda share: latencies[min(len(latencies) - 1, int(share * len(latencies)))]
        problem = f"{len(self.failures)} failed ({self.failures[0]})" if self.failures else ""
        return Load(total, elapsed, at(0.5), at(0.99), problem + (f" {missing} not answered" if missing else ""))


class Connection(asyncio.Protocol):
    def __init__(self, connections):
        self.connections, self.buffer, self.due = connections, b"", None

    def connection_made(self, transport):
        self.transport = transport
        self.connections.free.append(self)

    def send(self, request, due):
        self.due = due
        self.transport.write(request)

    def data_received(self, data):
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator or len(body) < _content_length(head):
            return
        if not head.startswith(b"HTTP/1.1 20"):
            self.connections.failures.append(head.split(b"\r\n")[0].decode())
        self.answered()
        self.buffer = b""
        self.connections.free.append(self)

    def connection_lost(self, error):
        if self in self.connections.free:
            self.connections.free.remove(self)
        elif self.due is not None:
            self.connections.failures.append("connection lost")
            self.answered()

    def answered(self):
        self.connections.latencies.append(self.connections.loop.time() - self.due)
        self.due = None


def _request(url, target, path, body):
    headers = {"Host": url.netloc, **target.headers, "Content-Length": len(body)}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _content_length(head):
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@dataclasses.dataclass
class Target:
    """An origin to which requests are posted, one after the other and then from the first again: each a path and a body."""

    origin: str
    headers: dict
    requests: list
