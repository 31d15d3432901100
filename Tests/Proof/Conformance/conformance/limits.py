"""Limits of time for what ought to end. Machines may have much else to do, so that nothing has a shorter one."""

import contextlib
import signal

# Seconds that a case waits for anything: less than pytest.ini allows a whole case, so that the case says what is missing.
TIMEOUT = 240


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
