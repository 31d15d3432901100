"""Runs a case, compares what was seen with what was wanted, and proves that the comparison can fail."""

import copy
import dataclasses

from . import http
from .cases import resolve
from .matching import ABSENT, Matcher, differences


@dataclasses.dataclass
class Seen:
    """What an exchange has shown: the answer and what arrived at the phones' providers."""

    status: int
    headers: dict
    body: object
    arrived: list


def run(case, world):
    """Runs a case; raises AssertionError where something is not as wanted, or where nobody would notice if it were not."""
    for step in case.given:
        world.prepare(step)
    for number, exchange in enumerate(case.exchanges):
        wanted, seen = perform(exchange, world)
        found = list(judge(wanted, seen))
        assert not found, "\n".join([f"{case.name}, {exchange['request']}:", *found, f"answered: {seen.status} {seen.body!r}"])
        for what, mutant in mutants(wanted, seen):
            assert list(judge(wanted, mutant)), f"{case.name}, {exchange['request']}: the case does not notice {what}"


def perform(exchange, world):
    exchange = resolve(exchange, world)
    request = {name: exchange[name] for name in exchange if name not in ("answer", "arrives")}
    answer = world.send(request)
    # What is wanted may speak of the answer, as the next exchange may.
    world.last = answer.body
    wanted = world.wanted(exchange["answer"])
    arrives = exchange.get("arrives", [])
    headers = {name.lower(): value for name, value in answer.headers}
    # Nothing is waited for after another answer.
    expected = 0 if list(differences(wanted["status"], answer.status)) else len(arrives)
    return {**wanted, "arrives": arrives}, Seen(answer.status, headers, answer.body, world.arrived(expected))


def judge(wanted, seen):
    yield from differences(wanted["status"], seen.status, "status")
    for name, value in wanted.get("headers", {}).items():
        yield from differences(value, seen.headers.get(name.lower(), ABSENT), f"header {name}")
    if "body" in wanted:
        yield from differences(wanted["body"], seen.body, "body")
    pairs = list(paired(wanted["arrives"], seen.arrived))
    for arrival, found in pairs:
        if found is None:
            yield f"nothing arrives for {arrival['to']}"
            continue
        for name, value in arrival.get("headers", {}).items():
            yield from differences(value, found["headers"].get(name.lower(), ABSENT), f"header {name} for {arrival['to']}")
        if "payload" in arrival:
            yield from differences(arrival["payload"], found["payload"], f"payload for {arrival['to']}")
    for other in seen.arrived:
        if not any(other is found for _, found in pairs):
            yield f"something arrives for {other['to']} that was not to come: {other['payload']!r}"


def paired(arrivals, arrived):
    """Each arrival that is wanted with what has come for it. Phones are independent of each other: only what one phone gets
    has an order."""
    rest = list(arrived)
    for arrival in arrivals:
        found = next((other for other in rest if other["to"] == arrival["to"]), None)
        rest = [other for other in rest if other is not found]
        yield arrival, found


def mutants(wanted, seen):
    """What a faulty implementation might have shown, each with its fault in words."""

    def mutant(**changes):
        return dataclasses.replace(copy.deepcopy(seen), **changes)

    yield "another status", mutant(status=500 if seen.status != 500 else 200)
    yield "a neighbouring status", mutant(status=seen.status + 1)
    for name, value in wanted.get("headers", {}).items():
        name = name.lower()
        yield f"that header {name} is another", mutant(headers={**seen.headers, name: ""})
        if name in seen.headers:
            yield f"that header {name} is missing", mutant(
                headers={other: value for other, value in seen.headers.items() if other != name})
    if "body" in wanted:
        for what, body in changed(wanted["body"], seen.body, "body"):
            yield what, mutant(body=body)
    for index, arrival in enumerate(seen.arrived):
        others = seen.arrived[:index] + seen.arrived[index + 1:]
        yield "that a notification is dropped", mutant(arrived=others)
        yield "that a notification comes twice", mutant(arrived=[*seen.arrived, dict(arrival)])
        yield "that a notification goes to another phone", mutant(arrived=[*others, {**arrival, "to": "a stranger"}])
        expected = next((one for one, found in paired(wanted["arrives"], seen.arrived) if found is arrival), {})

        def altered(**changes):
            return mutant(arrived=[*seen.arrived[:index], {**arrival, **changes}, *seen.arrived[index + 1:]])

        for what, payload in changed(expected.get("payload", {}), arrival["payload"], "payload"):
            yield what, altered(payload=payload)
        for name in expected.get("headers", {}):
            yield f"that header {name} of a notification is another", altered(headers={**arrival["headers"], name.lower(): ""})
    if not seen.arrived:
        yield "a notification that was not to come", mutant(arrived=[{"to": "a stranger", "headers": {}, "payload": {}}])


def changed(wanted, got, place):
    """A value with one change each: a member gone, one more, another value."""
    if isinstance(wanted, Matcher):
        # Of these only the form is known; another type is always noticed.
        if wanted.kind == "any":
            return
        yield f"that {place} is of another type", ["another type"] if not isinstance(got, list) else 0
        return
    if isinstance(got, dict):
        yield f"another member of {place}", {**got, "added by a mutant": 1}
        for name, value in got.items():
            yield f"that {place}.{name} is missing", {other: item for other, item in got.items() if other != name}
            for what, item in changed(wanted.get(name) if isinstance(wanted, dict) else None, value, f"{place}.{name}"):
                yield what, {**got, name: item}
    elif isinstance(got, list):
        yield f"another item of {place}", [*got, "added by a mutant"]
        for index, value in enumerate(got):
            yield f"that {place}[{index}] is missing", got[:index] + got[index + 1:]
            item = wanted[index] if isinstance(wanted, list) and index < len(wanted) else None
            for what, value in changed(item, value, f"{place}[{index}]"):
                yield what, [*got[:index], value, *got[index + 1:]]
    elif isinstance(got, str):
        yield f"another text of {place}", got + "."
        yield f"that {place} is no text", None
    elif isinstance(got, bool):
        yield f"that {place} is {not got}", not got
    elif isinstance(got, (int, float)):
        yield f"another number of {place}", got + 1
        yield f"that {place} is a text", str(got)
    else:
        yield f"that {place} is there", "something"


__all__ = ["http", "judge", "mutants", "perform", "run"]
