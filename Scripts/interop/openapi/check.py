"""Whether the service answers as Documentation/OpenAPI says, whatever it is asked.

Starts the simulator and a service with everything switched on, lets a chat server, a user and phones in, and has
schemathesis ask each endpoint of each description, with good values and bad ones: no fault of the service, no status,
header, media type or member that is not described, and no description of a method that is not there.
The same seed asks the same.

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

from world import World, basic

HERE = Path(__file__).resolve().parent
DESCRIPTIONS = HERE / "../../../Documentation/OpenAPI"
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method", "allow_header_conformance", "ignored_auth",
]
# A host that shows a secret and a phone that opens what it is sent are more than there is here, and other tests have them.
UNMET = {
    "POST /apps/notifications/api/v2/webpush/activate 202",
    "GET /server/register/verify_challenge 200", "POST /server/register/verify_challenge 200",
}
BACKEND_TOKEN = secrets.token_hex(32)
ADMIN_TOKEN = secrets.token_hex(32)
SETTINGS = {
    "http.port": 0, "admin.port": 0, "log.format": "json", "log.level": "info", "bouncer.registration": "open",
    "backend.token": BACKEND_TOKEN, "admin.token": ADMIN_TOKEN, "nextcloud.enabled": "true",
    "nextcloud.allow_local_proxies": "true", "http.rate_limit.per_address": 0, "bouncer.rate_limit.per_server": 0,
    "server.rate_limit.per_user": 0, "nextcloud.rate_limit.per_address": 0, "nextcloud.new_devices_per_address": 0,
}


class Processes:
    """The simulator and the service."""

    def __init__(self, binary, folder, database, stack):
        self.folder, self.stack, self.running = folder, stack, []
        keys = folder / "Keys"
        self.start("endpoints", binary, "simulate", "--apns-port", 0, "--fcm-port", 0, "--webpush-port", 0, "--keys-out", keys, "--json")
        endpoints = json.loads(self.wait("endpoints", lambda text: text.endswith("\n") and text))
        settings = SETTINGS | {
            "keys.directory": keys, "providers.ca_file": keys / "ca.pem", "database.url": database,
            "apns.endpoint": endpoints["apns_endpoint"], "fcm.endpoint": endpoints["fcm_endpoint"],
            "webpush.allow_private_hosts": "127.0.0.1",
        }
        self.start("log", binary, "serve", *(word for key, value in settings.items() for word in (f"--{key}", value)))
        self.public, self.admin = (self.wait("log", self.listening(name)) for name in ("public", "admin"))
        self.push_service, self.ca_file = endpoints["webpush_endpoint"], keys / "ca.pem"
        self.bouncer_key = json.loads(next((keys / "bouncer").glob("*.json")).read_text())["public_key"]

    def start(self, output, *command):
        command = [str(word) for word in command]
        with open(self.folder / output, "w") as file:
            process = subprocess.Popen(command, cwd=self.folder, stdout=file, stderr=file)
        self.running.append(process)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)

    @staticmethod
    def listening(name):
        def find(log):
            for line in log.splitlines():
                entry = json.loads(line) if line.startswith("{") else {}
                if entry.get("listener") == name:
                    return f"http://127.0.0.1:{entry['port']}"
        return find

    def wait(self, output, find):
        for _ in range(600):
            text = (self.folder / output).read_text()
            if found := find(text):
                return found
            if any(process.poll() is not None for process in self.running):
                break
            time.sleep(0.1)
        sys.exit(f"it did not start:\n{text}")


def calls(url, admin, world):
    """A description, where it is served, with which credentials, and which paths of it."""
    user, phone = basic("1@example.org", world.keys[1]), world.password
    yield "Bouncer", f"{url}/api/v1/remotes", basic(*world.server), []
    yield "WebPush", f"{url}/api/v1/zulip-services", None, []
    yield "Chat", f"{url}/api/v1", user, []
    yield "Chat", url, user, ["--include-path", "/mobile_push/register"]
    yield "Backend", f"{url}/backend/v1", f"Bearer {BACKEND_TOKEN}", []
    yield "NextcloudProxy", url, None, []
    # Before the login flow, whose wrong keys would count for an address that shows wrong app passwords, too.
    yield "NextcloudOCS", f"{url}/ocs/v2.php", phone, []
    # There a refusal is told in the envelope, with status 200.
    yield "NextcloudOCS", f"{url}/ocs/v1.php", phone, ["--exclude-checks", "ignored_auth"]
    yield "NextcloudLogin", url, None, []
    yield "NextcloudLogin", f"{url}/index.php", None, ["--exclude-path", "/status.php"]
    yield "Operator", admin, f"Bearer {ADMIN_TOKEN}", []


def headers(authorization, substitutes):
    """What schemathesis's configuration says of credentials: for all paths, and for some."""
    header = lambda value: f"headers = {{ Authorization = {json.dumps(value)} }}\n"
    return "".join(
        [header(authorization) if authorization else ""]
        + [f"[[operations]]\ninclude-path = {json.dumps(path)}\n{header(one)}" for path, one in substitutes.items()])


def run(name, url, authorization, options, world, arguments, place):
    """Whether a description is true at an address, and what is to be said of it."""
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
        "--request-timeout", "30", "--warnings", "off", "--suppress-health-check", "all", *options,
    ]
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "NO_COLOR": "1", "OPENAPI_PERSONAS": str(personas),
        "OPENAPI_ANSWERS": str(answers),
    }
    result = subprocess.run(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode == 0, result.stdout, set(answers.read_text().splitlines())


def successes(name):
    """The successes that a description has: a run that does not meet each has not looked at what matters."""
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
        database = arguments.database or f"sqlite:{folder}/service.sqlite"
        processes = Processes(arguments.executable.resolve(), folder, database, stack)
        world = World(processes, BACKEND_TOKEN, ADMIN_TOKEN)
        failed, met = [], {}
        for name, url, authorization, more in calls(processes.public, processes.admin, world):
            if arguments.only not in (None, name):
                continue
            start = time.monotonic()
            what = f"{name} at {urllib.parse.urlsplit(url).path or '/'}"
            place = folder / what.replace("/", "_")
            isRight, output, answers = run(name, url, authorization, more + options, world, arguments, place)
            met[name] = met.get(name, set()) | answers
            print(f"{'ok  ' if isRight else 'FAIL'} {what}, {time.monotonic() - start:.0f} s", flush=True)
            if not isRight:
                failed.append(what)
                print(output, flush=True)
        for name, answers in met.items():
            for answer in sorted(successes(name) - answers - UNMET):
                failed.append(f"{name}: {answer}, which was never answered")
        if failed:
            sys.exit(f"error: not as described: {'; '.join(failed)} (Scripts/interop/openapi/run says more)")


main()
