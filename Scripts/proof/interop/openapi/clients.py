"""Makes a client of each description with a generator from PyPI, and has it read the answers that the service gave."""

import datetime
import functools
import importlib
import json
import re
import subprocess
import sys

import httpx
import yaml


def generate(description, folder):
    """Makes a client in `folder`. Returns what is wrong: whatever the generator warns of is missing in the client."""
    options = folder.parent / "generator.yaml"
    options.write_text("post_hooks: []\n")
    command = [
        sys.executable, "-m", "openapi_python_client", "generate", "--path", description, "--output-path", folder,
        "--meta", "none", "--config", options, "--fail-on-warning",
    ]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [] if result.returncode == 0 else [result.stdout]


def plain(path):
    """A path without the names of its parameters."""
    return re.sub("{.*?}", "{}", path)


def operations(description):
    """The statuses whose answers are JSON, by the method and path of each operation."""
    root = yaml.safe_load(description.read_text())

    def is_json(response):
        while "$ref" in response:
            response = root["components"]["responses"][response["$ref"].rpartition("/")[2]]
        return "application/json" in response.get("content", {})

    return {
        f"{method.upper()} {plain(path)}": {int(s) for s, response in operation["responses"].items() if is_json(response)}
        for path, methods in root["paths"].items() for method, operation in methods.items()
        if method in ("get", "put", "post", "delete")
    }


def functions(folder):
    """The source of the client's module for each operation, and its name."""
    found = {}
    for module in (folder / "api").rglob("*.py"):
        source = module.read_text()
        if call := re.search(r'"method": "(\w+)",\s*"url": "(.*?)"', source):
            name = ".".join(module.relative_to(folder.parent).with_suffix("").parts)
            found[f"{call[1].upper()} {plain(call[2])}"] = source, name
    return found


def instants(value):
    """The value with times as numbers, since a client writes them in another form."""
    if isinstance(value, dict):
        return {name: instants(member) for name, member in value.items()}
    if isinstance(value, list):
        return [instants(element) for element in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)", value):
        return datetime.datetime.fromisoformat(value).timestamp()
    return value


def misread(parse, status, body):
    """What is wrong with how a client reads an answer; nothing if it is right."""
    try:
        answer = parse(response=httpx.Response(status, json=body))
    except Exception as error:
        return f"cannot read it: {error!r}"
    if hasattr(answer, "to_dict") and instants(answer.to_dict()) != instants(body):
        return f"reads it as {answer.to_dict()}"
    unnamed = getattr(answer, "additional_properties", {})
    return f"has no member for {', '.join(unnamed)}" if status < 300 and unnamed else None


def check(description, folder, answers):
    """Makes a client and gives it answers, each as its method, path, status and, where it is JSON, the body.
    Returns what is wrong, and how many answers the client has read."""
    name = description.stem
    wrong = generate(description, folder / name)
    if wrong:
        return wrong, 0
    sys.path.insert(0, str(folder))
    client = importlib.import_module(f"{name}.client").Client(base_url="http://localhost", raise_on_unexpected_status=True)
    described, made, read = operations(description), functions(folder / name), 0
    parsers = {}
    for operation, statuses in described.items():
        source, module = made.get(operation, ("", ""))
        wrong += [
            f"no client reads the {status} of {operation}" for status in sorted(statuses)
            if f"response.status_code == {status}:" not in source
        ]
        try:
            parsers[operation] = functools.partial(importlib.import_module(module)._parse_response, client=client)
        except Exception as error:
            wrong.append(f"the client of {operation} does not load: {error!r}")
    for answer in [] if wrong else sorted(answers):
        method, path, status, *body = answer.split(" ", 3)
        operation = f"{method} {plain(path)}"
        if body and int(status) in described.get(operation, ()):
            fault = misread(parsers[operation], int(status), json.loads(body[0]))
            wrong += [f"the client of {operation} {fault}: {status} {body[0]}"] if fault else []
            read += 1
    return wrong, read
