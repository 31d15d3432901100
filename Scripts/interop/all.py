"""Runs every check here, on one simulator. Prints a line per check; exits 1 at the first that fails.

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
import webpush_sender
from app import Mismatch, Program
from conformance.simulator import Simulator


def main(binary):
    vectors.main(binary)
    with contextlib.ExitStack() as stack:
        simulator = Simulator(binary)
        stack.callback(simulator.stop)
        providers.main(simulator)
        http2.main(binary, simulator)
        webpush_sender.main(binary, simulator)
        webpush.main(binary, simulator)
        service = stack.enter_context(Program(binary, simulator, {}))
        nextcloud_client.main(service)
        if php := shutil.which("php"):
            subprocess.run([php, Path(__file__).with_name("nextcloud.php"), binary, service.url], check=True)
        else:
            print("--  PHP's OpenSSL was not tried: there is no php")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Mismatch as error:
        sys.exit(f"FAIL {error}")
