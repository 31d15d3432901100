"""Hooks of schemathesis for check.py. The service knows few of the generated values, so in a part of the requests they are
replaced with values that it knows. Otherwise nearly every request would be refused by the first check."""

import json
import os
import re
import urllib.parse
from pathlib import Path

import schemathesis
from hypothesis import strategies

PERSONAS = json.loads(Path(os.environ["OPENAPI_PERSONAS"]).read_text())


def fill(value, persona):
    if isinstance(value, dict):
        return {name: persona[name] if name in persona else fill(member, persona) for name, member in value.items()}
    if isinstance(value, list):
        return [fill(element, persona) for element in value]
    return value


def of(persona, operation):
    return persona | persona.get(operation.label, {})


def known(case, persona):
    persona = of(persona, case.operation)
    for part in "body", "query", "path_parameters":
        setattr(case, part, fill(getattr(case, part), persona))
    case.headers.update({name: persona[name] for name in case.headers if name in persona})
    return case


def choose(schema, persona, root=None):
    """The values of a persona that a body with this schema may have."""
    root = root or schema
    schema = root["x-bundled"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    chosen = {
        name: value for name, value in persona.items()
        if name in schema.get("properties", {})
        or any(re.search(pattern, name) for pattern in schema.get("patternProperties", {}))
    }
    for part in schema.get("allOf", []) + schema.get("anyOf", []) + schema.get("oneOf", []):
        chosen |= choose(part, persona, root)
    return chosen


@schemathesis.hook
def before_add_examples(context, examples):
    """Adds the request that each persona would make, in the order of the description."""
    operation = context.operation
    for persona in PERSONAS:
        persona = of(persona, operation)
        parts = {
            part: {parameter.name: persona[parameter.name] for parameter in getattr(operation, part)
                   if parameter.name in persona}
            for part in ("path_parameters", "query", "headers")
        }
        if len(parts["path_parameters"]) < len(list(operation.path_parameters)):
            continue
        for body in operation.body:
            chosen = choose(body.definition["schema"], persona) or persona.get("body", {})
            examples.append(operation.Case(**parts, body=chosen, media_type=body.media_type))
        if not list(operation.body):
            examples.append(operation.Case(**parts))


@schemathesis.hook
def filter_case(context, case):
    """Leaves out addresses of more than 16 KB: the parser refuses them with a bare 400 before any route is known."""
    return len(urllib.parse.urlencode(case.query or {}, doseq=True)) < 15_000


@schemathesis.hook
def flatmap_case(context, case):
    return strategies.sampled_from([None, *PERSONAS]).map(lambda persona: known(case, persona) if persona else case)


@schemathesis.hook
def before_call(context, case, kwargs):
    # A request for events must not wait for events that never come.
    if case.path == "/events" and case.query and case.query.get("dont_block") in (None, False, "false"):
        case.query["dont_block"] = "true"


@schemathesis.hook
def after_call(context, case, response):
    is_json = response.headers.get("content-type", [""])[0].startswith("application/json")
    body = f" {json.dumps(response.json())}" if is_json and response.content else ""
    with open(os.environ["OPENAPI_ANSWERS"], "a") as answers:
        answers.write(f"{case.method} {case.path} {response.status_code}{body}\n")
