"""Which cases hold which rules of Documentation/Protocols: writes Documentation/Conformance.md, or checks it.

    python -m conformance.coverage --write | --check
"""

import importlib.util
import re
import sys
from pathlib import Path

import yaml

from . import cases, rules

HERE = cases.HERE
ROOT = HERE.parents[1]
PAGE = ROOT / "Documentation" / "Conformance.md"

HEAD = """# Conformance: the rules and the cases that hold them

Made by `Tests/Conformance/run --coverage` from [the documents](Protocols) and from the cases of
[Tests/Conformance](../Tests/Conformance/README.md), which run against this program and against others. Each paragraph,
list item and table row of a numbered section is a rule.

*Strict* is what stock chat servers, apps or phones depend on: an implementation that answers otherwise fails. What *may
differ* is told without failing the run, for the reason below each document's tables. What cannot be seen from outside
over HTTP has the reason in place of a case and, where there is one, the test that holds it. A rule counts as held once a
case names it; of one that says several things a case may hold only some.
"""


class Coverage:
    def __init__(self):
        self.rules = {document: rules.read(document) for document in rules.documents()}
        self.options = yaml.safe_load((HERE / "options.yaml").read_text()) or {}
        self.held = {}
        self.errors = []
        for suite, name, names, option in self.cases():
            if option is not None and option not in self.options:
                self.errors.append(f"{suite}: {name}: options.yaml has no {option}")
            for rule in names:
                if found := self.find(suite.split("_")[0], rule, f"{suite}: {name}"):
                    self.held.setdefault(found, []).append((name, option))
        self.unseen = {}
        unseen = yaml.safe_load((HERE / "unseen.yaml").read_text())
        self.unfinished = tuple(unseen.pop("unfinished", []))
        for document, groups in unseen.items():
            for group in groups:
                for rule in group["rules"]:
                    if found := self.find(document, rule, "unseen.yaml"):
                        self.unseen[found] = group
                        if found in self.held:
                            self.errors.append(f"unseen.yaml: a case holds {found}")
                if "test" in group and not self.is_test(*group["test"].split(": ", 1)):
                    self.errors.append(f"unseen.yaml: there is no test {group['test']}")

    @staticmethod
    def is_test(file, name):
        return any(f"`{name}`" in path.read_text() for path in (ROOT / "Tests").glob(f"*Tests/**/{file}"))

    def find(self, document, name, place):
        """The rule of that name; its beginning is enough where no other rule of the section begins so."""
        known = self.rules[document]
        id = f"{document}/{name.removeprefix(document + '/')}"
        if id in known:
            return id
        found = [other for other in known if other.startswith(id + "-") or other == id]
        if len(found) == 1:
            return found[0]
        self.errors.append(f"{place}: {name} " + (f"may be {' or '.join(found)}" if found else "is no rule"))

    def cases(self):
        """(suite, name, rules, option) of all data cases and stories."""
        for folder in sorted(path for path in (HERE / "cases").iterdir() if path.is_dir()):
            for case in cases.load(folder.name):
                yield folder.name, case.name, case.rules, case.option
        for path in sorted((HERE / "stories").glob("*/test_*.py")):
            spec = importlib.util.spec_from_file_location(f"{path.parent.name}.{path.stem}", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            general = getattr(module, "pytestmark", [])
            for name, test in vars(module).items():
                if not name.startswith("test_"):
                    continue
                marks = [*getattr(test, "pytestmark", []), *(general if isinstance(general, list) else [general])]
                option = next((mark.args[0] for mark in marks if mark.name == "option"), None)
                held = [rule for mark in marks if mark.name == "rules" for rule in mark.args]
                if not held:
                    self.errors.append(f"{path.parent.name}/{path.name}: {name} names no rule")
                yield path.parent.name, name.removeprefix("test_").replace("_", " "), held, option

    @property
    def empty(self):
        return [id for known in self.rules.values() for id in known if id not in self.held and id not in self.unseen]

    def page(self):
        yield HEAD
        for document, known in self.rules.items():
            held = [id for id in known if id in self.held]
            strict = [id for id in held if any(option is None for _, option in self.held[id])]
            yield (f"## {document.capitalize()}.md\n\n{len(known)} rules: {len(strict)} strict, {len(held) - len(strict)} that "
                   f"may differ, {sum(id in self.unseen for id in known)} that cannot be seen from outside.\n")
            section = None
            options = set()
            for rule in known.values():
                if rule.section != section:
                    section = rule.section
                    yield f"\n### {section} {plain(rule.title)}\n\n| rule | | cases |\n|---|---|---|"
                if rule.id in self.held:
                    kind = "strict" if rule.id in strict else "may differ"
                    found = []
                    for name, option in self.held[rule.id]:
                        found.append(plain(name) + (f" [{option}](#{document}-{option})" if option else ""))
                        options |= {option} - {None}
                    # The same name may stand in several suites.
                    found = "<br>".join(dict.fromkeys(found))
                elif rule.id in self.unseen:
                    group = self.unseen[rule.id]
                    kind, found = "unseen", "*" + plain(group["why"]) + "*" + (f" `{group['test']}`" if "test" in group else "")
                else:
                    kind, found = "", ""
                yield f"| `{rule.id.split('/', 2)[2]}`<br>{plain(rule.text)} | {kind} | {found} |"
            if options:
                yield f"\n### What may differ from {document.capitalize()}.md\n"
                for name in sorted(options):
                    yield f'- <a id="{document}-{name}"></a>**{name}**: {self.options[name]}'
            yield ""


def plain(text):
    """As the cell of a table: short, without links."""
    text = text.replace("|", "\\|").replace("\\\\|", "\\|").replace("[", "").replace("<", "&lt;")
    text = re.sub(r"\]\([^)]*\)", "", text).replace("]", "")
    return text if len(text) <= 160 else cut(text[:157])


def cut(text):
    """Without half a code span at its end."""
    text = text.rsplit(" ", 1)[0]
    if text.count("`") % 2:
        text = text.rsplit("`", 1)[0]
    if text.count("**") % 2:
        text += "**"
    return text.rstrip() + " ..."


def main(mode):
    found = Coverage()
    page = "\n".join(found.page()).rstrip() + "\n"
    if mode == "--write":
        PAGE.write_text(page)
        print(f"{PAGE.relative_to(ROOT)}: {len(found.held)} rules have cases, {len(found.unseen)} cannot be seen, {len(found.empty)} have neither")
    elif not PAGE.exists() or PAGE.read_text() != page:
        found.errors.append("Documentation/Conformance.md is stale: Tests/Conformance/run --coverage writes it")
    found.errors += [f"{id} has no case" for id in found.empty if not id.startswith(found.unfinished)]
    for error in found.errors:
        print(error, file=sys.stderr)
    return 1 if found.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
