"""What an answer or a delivery is compared with: values, and matchers for what only has a form."""

import dataclasses
import re


class Absent:
    def __repr__(self):
        return "nothing"

    def __deepcopy__(self, memo):
        return self


ABSENT = Absent()


@dataclasses.dataclass
class Matcher:
    """A value of which only a form is known: `!integer`, `!match "[0-9a-f]+"`."""

    kind: str
    argument: object = None

    def accepts(self, value):
        match self.kind:
            case "any":
                return value is not ABSENT
            case "text":
                return isinstance(value, str) and value != ""
            case "integer":
                return isinstance(value, int) and not isinstance(value, bool)
            case "number":
                return isinstance(value, (int, float)) and not isinstance(value, bool)
            case "match":
                return isinstance(value, str) and re.fullmatch(self.argument, value, re.DOTALL) is not None
            case "has":
                # At least these members; `differences` compares them.
                return False
            case "among":
                return value in self.argument
            case "contains":
                return isinstance(value, list) and self.argument in value
            case "unordered":
                rest = list(value) if isinstance(value, list) else None
                for wanted in self.argument:
                    found = next((item for item in rest or [] if not list(differences(wanted, item))), ABSENT)
                    if found is ABSENT:
                        return False
                    rest.remove(found)
                return rest == []
        raise ValueError(f"no such matcher: !{self.kind}")

    def __repr__(self):
        return f"!{self.kind}" + ("" if self.argument in (None, "") else f" {self.argument!r}")


MATCHERS = {"any", "text", "integer", "number", "match", "has", "among", "contains", "unordered"}


def differences(wanted, got, place=""):
    """Yields a description of each difference."""
    if isinstance(wanted, Matcher):
        if wanted.kind == "has" and isinstance(got, dict):
            yield from differences(wanted.argument, {name: got[name] for name in wanted.argument if name in got}, place)
        elif not wanted.accepts(got):
            yield f"{place or 'it'} is {got!r}, not {wanted!r}"
    elif isinstance(wanted, dict) and isinstance(got, dict):
        for name in [*wanted, *(name for name in got if name not in wanted)]:
            yield from differences(wanted.get(name, ABSENT), got.get(name, ABSENT), f"{place}.{name}" if place else str(name))
    elif isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            yield f"{place or 'it'} has {len(got)} items, not {len(wanted)}: {got!r}"
        for index, (one, other) in enumerate(zip(wanted, got)):
            yield from differences(one, other, f"{place}[{index}]")
    elif type(wanted) is not type(got) or wanted != got:
        # JSON parts true from 1, but not 1 from 1.0.
        if not (type(wanted) in (int, float) and type(got) in (int, float) and wanted == got):
            yield f"{place or 'it'} is {got!r}, not {wanted!r}"
