"""A limit of time for what ought to end."""

import contextlib
import signal


@contextlib.contextmanager
def limit(seconds, what):
    """Raises AssertionError in the main thread, wherever that waits, once what is within has taken so long."""
    def stop(*_):
        raise AssertionError(f"{what} took longer than {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
