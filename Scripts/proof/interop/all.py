"""Runs every check here, on one simulator. Prints a line per check; exits 1 at the first that fails or hangs.

    all.py EXECUTABLE
"""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import http2
import nextcloud_client
import providers
import vectors
import webpush
import webpush_gateway
import webpush_sender
from app import Mismatch, Program
from conformance.limits import limit
from conformance.simulator import Simulator


# Seconds for each part.
LIMIT = 300


def main(binary):
    with contextlib.ExitStack() as stack:
        def run(part, *arguments):
            with limit(LIMIT, part.__name__):
                part.main(*arguments)

        tool = Path(binary).with_name("test-tool")
        run(vectors, tool)
        simulator = Simulator(binary)
        stack.callback(simulator.stop)
        run(providers, simulator)
        run(http2, binary, simulator)
        run(webpush_sender, binary, simulator)
        run(webpush, binary, simulator)
        run(webpush_gateway, binary, simulator)
        service = stack.enter_context(Program(binary, simulator, {}))
        run(nextcloud_client, service)
        if php := shutil.which("php"):
            subprocess.run([php, Path(__file__).with_name("nextcloud.php"), tool, service.url], check=True, timeout=LIMIT)
        else:
            print("--  PHP's OpenSSL was not tried: there is no php")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (AssertionError, Mismatch) as error:
        sys.exit(f"FAIL {error}")
