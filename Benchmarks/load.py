"""Load on an HTTP service: as much as the service can answer (wrk), or at a fixed rate (open loop)."""

import asyncio
import dataclasses
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


SCRIPT = """
local bodies, index = {{}}, 0
for line in io.lines("{bodies}") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Authorization"] = "{authorization}"
wrk.headers["Content-Type"] = "{content_type}"
request = function()
  index = index % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[index])
end
"""


def closed(folder, targets, connections, seconds):
    """Keeps so many requests under way: each answer is followed by the next request. One wrk runs for each target."""
    loads, start = [], time.monotonic()
    for number, target in enumerate(targets):
        bodies, script = folder / f"bodies{number}", folder / f"load{number}.lua"
        bodies.write_text("\n".join(target.bodies))
        script.write_text(SCRIPT.format(bodies=bodies, authorization=target.authorization, content_type=target.content_type))
        command = [
            "wrk", "-t1", f"-c{max(1, connections // len(targets))}", f"-d{seconds}s", "--timeout", "30s", "--latency",
            "-s", script, target.url]
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
    return asyncio.run(_open_loop(target, rate, seconds, connections))


async def _open_loop(target, rate, seconds, connections):
    url = urllib.parse.urlparse(target.url)
    requests = [_request(url, target, body) for body in target.bodies]
    free, latencies, failures = [], [], []
    loop = asyncio.get_running_loop()

    class Connection(asyncio.Protocol):
        def __init__(self):
            self.buffer, self.due = b"", None

        def connection_made(self, transport):
            self.transport = transport

        def send(self, request, due):
            self.due = due
            self.transport.write(request)

        def data_received(self, data):
            self.buffer += data
            head, separator, body = self.buffer.partition(b"\r\n\r\n")
            if not separator or len(body) < _content_length(head):
                return
            if not head.startswith(b"HTTP/1.1 200"):
                failures.append(head.split(b"\r\n")[0].decode())
            latencies.append(loop.time() - self.due)
            self.buffer, self.due = b"", None
            free.append(self)

        def connection_lost(self, error):
            if self in free:
                # The service has closed the idle connection.
                free.remove(self)
            if self.due is not None:
                failures.append("connection lost")
                latencies.append(loop.time() - self.due)

    opened = [(await loop.create_connection(Connection, url.hostname, url.port))[1] for _ in range(connections)]
    free.extend(opened)
    start, sent, total = loop.time(), 0, int(rate * seconds)
    while len(latencies) < total and loop.time() < start + seconds + 30:
        now = loop.time()
        while sent < total and start + sent / rate <= now and free:
            free.pop().send(requests[sent % len(requests)], start + sent / rate)
            sent += 1
        await asyncio.sleep(0.001)
    elapsed = loop.time() - start
    missing = total - len(latencies)
    for connection in opened:
        connection.due = None
        connection.transport.abort()
    latencies += [elapsed] * missing
    latencies.sort()
    at = lambda share: latencies[min(len(latencies) - 1, int(share * len(latencies)))]
    problem = f"{len(failures)} failed ({failures[0]})" if failures else ""
    return Load(total, elapsed, at(0.5), at(0.99), problem + (f" {missing} not answered" if missing else ""))


def _request(url, target, body):
    body = body.encode()
    return (
        f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: {target.authorization}\r\n"
        f"Content-Type: {target.content_type}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


def _content_length(head):
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@dataclasses.dataclass
class Target:
    """The address to which bodies are posted, one after the other and then from the first again."""

    url: str
    authorization: str
    content_type: str
    bodies: list
