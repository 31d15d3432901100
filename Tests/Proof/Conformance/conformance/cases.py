"""The cases that are data: cases/SUITE/*.yaml. README.md has their language."""

import copy
import dataclasses
import re
from pathlib import Path

import yaml

from .matching import ABSENT, MATCHERS, Matcher

HERE = Path(__file__).resolve().parent.parent
EXCHANGE = {"request", "as", "headers", "query", "form", "json", "body", "answer", "arrives"}
CASE = EXCHANGE | {"name", "rules", "option", "settings", "given", "then"}


@dataclasses.dataclass
class Made:
    """A value that the world of the suite makes when the case runs: `!sealed {...}`."""

    kind: str
    argument: object


@dataclasses.dataclass
class Case:
    suite: str
    file: str
    name: str
    rules: list
    option: str | None
    settings: dict
    given: list
    exchanges: list


class Loader(yaml.SafeLoader):
    pass


def construct(loader, tag, node):
    if isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        # A plain scalar keeps its type: `!repeat 5` is a number.
        value = yaml.load(node.value, Loader) if node.style is None and node.value else node.value
    if tag == "absent":
        return ABSENT
    return Matcher(tag, value) if tag in MATCHERS else Made(tag, value)


Loader.add_multi_constructor("!", construct)


def merged(base, over):
    """`over` on top of `base`: objects member by member, anything else as a whole. `!absent` takes a member away."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return copy.deepcopy(over)
    result = {name: copy.deepcopy(value) for name, value in base.items() if name not in over}
    for name, value in over.items():
        result[name] = merged(base.get(name), value)
    return result


def load(suite):
    for path in sorted(Path(HERE, "cases", suite).glob("*.yaml")):
        for group in yaml.load(path.read_text(), Loader) or []:
            common = {name: value for name, value in group.items() if name not in ("group", "cases")}
            for given in group["cases"]:
                yield one(suite, path, {**common, **given}, common)


def one(suite, path, given, common):
    place = f"{suite}/{path.name}: {given.get('name')}"
    assert given.keys() <= CASE, f"{place}: unknown members {sorted(given.keys() - CASE)}"
    assert given.get("name") and given.get("rules"), f"{place}: a case has a name and rules"
    first = {name: merged(common.get(name), given[name]) if name in ("form", "json", "headers", "query") else given[name]
             for name in EXCHANGE if name in given}
    # A body of another sort replaces that of the group.
    own = [name for name in ("form", "json", "body") if name in given and given[name] not in (common.get(name), ABSENT)]
    for name in ("form", "json", "body"):
        if own and name not in own:
            first.pop(name, None)
    first = {name: value for name, value in first.items() if value is not ABSENT}
    for exchange in [first, *given.get("then", [])]:
        assert exchange.keys() <= EXCHANGE and "request" in exchange and "answer" in exchange, f"{place}: {sorted(exchange)}"
    return Case(
        suite, path.name, given["name"], given["rules"] if isinstance(given["rules"], list) else [given["rules"]],
        given.get("option"), given.get("settings", {}), [*common.get("given", []), *given.get("given", [])] if given.get("given") is not common.get("given") else given.get("given", []),
        [first, *given.get("then", [])])


def resolve(value, world):
    """With `${server.id}` and what the world makes in their places; members that are absent are left out."""
    if isinstance(value, str):
        whole = re.fullmatch(r"\$\{([^}]+)\}", value)
        if whole:
            return look_up(whole[1], world)
        return re.sub(r"\$\{([^}]+)\}", lambda found: str(look_up(found[1], world)), value)
    if isinstance(value, dict):
        return {resolve(name, world): resolve(item, world) for name, item in value.items() if item is not ABSENT}
    if isinstance(value, list):
        return [resolve(item, world) for item in value]
    if isinstance(value, Matcher):
        return Matcher(value.kind, resolve(value.argument, world))
    if isinstance(value, Made):
        return getattr(world, "make_" + value.kind)(resolve(value.argument, world))
    return value


def look_up(path, world):
    """`server.id`; `last.NAME` is a member of the answer before."""
    found = world
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found
