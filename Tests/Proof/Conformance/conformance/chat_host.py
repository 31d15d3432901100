"""A chat server's own host, where a bouncer looks for the secret of a challenge."""

import contextlib
import threading

from .played import Played, tls

PATH = "/api/v1/zulip-services/verify/"


class ChatHost(Played):
    """`told` is what it answers: a status, a body as text and perhaps a Location; None: nothing, ever."""

    def __init__(self, context):
        super().__init__(context)
        self.hostname, self.told, self.asked, self.over = f"localhost:{self.port}", (404, "{}"), [], threading.Event()

    def answer(self, method, path, headers, body):
        self.asked.append(path)
        if self.told is None:
            self.over.wait(60)
            return 0, ""
        return self.told


@contextlib.contextmanager
def chat_host(authority):
    """A host on loopback, trusted by those who trust the authority; None: by nobody."""
    host = ChatHost(tls(authority))
    try:
        yield host
    finally:
        host.over.set()
        host.stop()
