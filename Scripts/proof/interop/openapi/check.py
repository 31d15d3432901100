"""Checks that the service answers as Documentation/OpenAPI says, whatever it is asked.

Starts the simulator and a service with everything switched on, registers a chat server, a user and phones, and has
schemathesis call each endpoint of each description with good values and bad ones. There must be no internal error, no
status, header, media type or member that is not described, and no described method that is missing. The same seed makes
the same calls. A client is generated from each description, without a warning, and reads every answer that was given.

    run EXECUTABLE [--database URL] [--examples N] [--seed N] [--only NAME] [OPTION OF SCHEMATHESIS...]
"""

import argparse
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import yaml

import clients
from adapters.push_bouncer import TOKEN
from app import Program
from conformance.limits import TIMEOUT
from conformance.phones import basic
from conformance.simulator import Simulator
from world import World

HERE = Path(__file__).resolve().parent
DESCRIPTIONS = HERE / "../../../../Documentation/OpenAPI"
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method", "allow_header_conformance", "ignored_auth",
]
# These need a host that shows a secret, a phone that opens a message, or a command that has the storage key. Other tests have
# them.
UNMET = {
    "POST /sealed 200",
    "POST /apps/notifications/api/v2/webpush/activate 202",
    "GET /server/register/verify_challenge 200", "POST /server/register/verify_challenge 200",
}
ADMIN_TOKEN = secrets.token_hex(32)
UNLIMITED = {
    "calls_per_user": 0, "proxy_calls_per_address": 0, "new_devices_per_address": 0, "gateway_calls_per_address": 0,
    "new_subscriptions_per_address": 0,
}


def calls(url, admin, world):
    """Yields each description with its address, the credentials for it, and options that choose paths."""
    user, phone = basic("1@example.org", world.keys[1]), world.password
    yield "Bouncer", f"{url}/api/v1/remotes", basic(*world.server), []
    yield "WebPush", f"{url}/api/v1/zulip-services", None, []
    yield "Chat", f"{url}/api/v1", user, []
    yield "Chat", url, user, ["--include-path", "/mobile_push/register"]
    yield "Backend", f"{url}/backend/v1", f"Bearer {TOKEN}", []
    yield "NextcloudProxy", url, None, []
    # Comes before the login flow, whose wrong keys would count as wrong app passwords of this address.
    yield "NextcloudOCS", f"{url}/ocs/v2.php", phone, []
    # This version tells a refusal in the envelope, with status 200.
    yield "NextcloudOCS", f"{url}/ocs/v1.php", phone, ["--exclude-checks", "ignored_auth"]
    yield "NextcloudLogin", url, None, []
    yield "NextcloudLogin", f"{url}/index.php", None, ["--exclude-path", "/status.php"]
    message = "/messages/{message}"
    yield "WebPushGateway", f"{url}/webpush/v1", f"Bearer {world.managed.secret}", ["--exclude-path", message]
    # Nobody but its app is told that there is a message: 404, not 401.
    yield "WebPushGateway", f"{url}/webpush/v1", None, ["--include-path", message, "--exclude-checks", "ignored_auth"]
    yield "Operator", admin, f"Bearer {ADMIN_TOKEN}", []


def headers(authorization, substitutes):
    """The part of schemathesis's configuration with the credentials: for all paths, and others for some."""
    header = lambda value: f"headers = {{ Authorization = {json.dumps(value)} }}\n"
    return "".join(
        [header(authorization) if authorization else ""]
        + [f"[[operations]]\ninclude-path = {json.dumps(path)}\n{header(one)}" for path, one in substitutes.items()])


def run(name, url, authorization, options, world, arguments, place):
    """Checks a description at an address. Returns whether it is right, the output, and which answers were met."""
    place.mkdir()
    personas, answers = place / "personas.json", place / "answers"
    personas.write_text(json.dumps(world.personas[name]))
    answers.touch()
    (place / "schemathesis.toml").write_text(
        'phases.examples.operation-ordering = "none"\n' + headers(authorization, world.substitutes(name)))
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", DESCRIPTIONS / f"{name}.yaml", "--url", url,
        "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--continue-on-failure",
        "--max-examples", str(arguments.examples), "--seed", str(arguments.seed), "--generation-database", "none",
        "--request-timeout", str(TIMEOUT), "--warnings", "off", "--suppress-health-check", "all", *options,
    ]
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "NO_COLOR": "1", "OPENAPI_PERSONAS": str(personas),
        "OPENAPI_ANSWERS": str(answers),
    }
    result = subprocess.run(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode == 0, result.stdout, set(answers.read_text().splitlines())


def successes(name):
    """The successes that a description has. A run has to meet each, or it has not tested what matters."""
    description = yaml.safe_load((DESCRIPTIONS / f"{name}.yaml").read_text())
    return {
        f"{method.upper()} {path} {status}"
        for path, methods in description["paths"].items() for method, operation in methods.items()
        if method in ("get", "put", "post", "delete")
        for status in operation["responses"] if status.startswith("2")
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("executable", type=Path)
    parser.add_argument("--database")
    parser.add_argument("--examples", type=int, default=int(os.environ.get("OPENAPI_EXAMPLES", 10)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = Path(folder)
        simulator = Simulator(arguments.executable.resolve())
        stack.callback(simulator.stop)
        service = stack.enter_context(Program(
            arguments.executable.resolve(), simulator, UNLIMITED, "--admin.token", ADMIN_TOKEN, database=arguments.database))
        world = World(service, simulator, ADMIN_TOKEN)
        (folder / "clients").mkdir()
        failed, met = [], {}
        for number, (name, url, authorization, more) in enumerate(calls(service.url, service.admin_url, world)):
            if arguments.only not in (None, name):
                continue
            start = time.monotonic()
            what = f"{name} at {urllib.parse.urlsplit(url).path or '/'}"
            place = folder / str(number)
            isRight, output, answers = run(name, url, authorization, more + options, world, arguments, place)
            met[name] = met.get(name, set()) | answers
            print(f"{'ok  ' if isRight else 'FAIL'} {what}, {time.monotonic() - start:.0f} s", flush=True)
            if not isRight:
                failed.append(what)
                print(output, flush=True)
        for name, answers in met.items():
            wrong, read = clients.check(DESCRIPTIONS / f"{name}.yaml", folder / "clients", answers)
            print(f"{'FAIL' if wrong else 'ok  '} a generated client of {name}, {read} answers read", flush=True)
            if wrong:
                failed.append(f"a client of {name}")
                print(*wrong, sep="\n", flush=True)
            statuses = {" ".join(answer.split(" ", 3)[:3]) for answer in answers}
            for answer in sorted(successes(name) - statuses - UNMET):
                failed.append(f"{name}: {answer}, which was never answered")
        if failed:
            sys.exit(f"error: not as described: {'; '.join(failed)} (Scripts/proof/interop/openapi/run says more)")


main()
