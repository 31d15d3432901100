"""A client that hides nothing: no redirects, no retries, any bytes."""

import dataclasses
import http.client
import json
import socket
import ssl
import urllib.parse

from .limits import TIMEOUT


@dataclasses.dataclass
class Answer:
    status: int
    headers: list
    bytes: bytes

    def header(self, name):
        return next((value for other, value in self.headers if other.lower() == name.lower()), None)

    @property
    def body(self):
        """The JSON of the body, else its text; None where there is none."""
        if not self.bytes:
            return None
        try:
            return json.loads(self.bytes)
        except ValueError:
            return self.bytes.decode(errors="replace")


def send(base, method, path, headers=None, body=None, ca_file=None):
    """One request on a connection of its own. `headers` may be pairs, to repeat a name."""
    url = urllib.parse.urlsplit(base)
    if url.scheme == "https":
        context = ssl.create_default_context(cafile=ca_file)
        connection = http.client.HTTPSConnection(url.hostname, url.port, timeout=TIMEOUT, context=context)
    else:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT)
    try:
        fields = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        names = {name.lower() for name, _ in fields}
        connection.putrequest(method, path, skip_host="host" in names, skip_accept_encoding=True)
        if "content-length" not in names and "transfer-encoding" not in names and (body is not None or method not in ("GET", "HEAD", "OPTIONS")):
            fields.append(("Content-Length", str(len(body or b""))))
        for name, value in fields:
            connection.putheader(name, value.encode() if isinstance(value, str) else value)
        try:
            connection.endheaders(body)
        except (BrokenPipeError, ConnectionResetError):
            # It may have answered before it had read all.
            pass
        response = connection.getresponse()
        return Answer(response.status, response.getheaders(), response.read())
    finally:
        connection.close()


def raw(base, data):
    """Sends bytes as they are; what comes back until the other side closes."""
    url = urllib.parse.urlsplit(base)
    with socket.create_connection((url.hostname, url.port), timeout=TIMEOUT) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received
