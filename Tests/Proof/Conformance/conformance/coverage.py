"""Which cases hold which rules of Documentation/Protocols: writes Documentation/Proof/Conformance.md, or checks it.

    python -m conformance.coverage --write | --check
"""

import importlib.util
import re
import sys

import yaml

from . import cases, rules

HERE = cases.HERE
ROOT = HERE.parents[2]
PAGE = ROOT / "Documentation" / "Proof" / "Conformance.md"

HEAD = """# Conformance: the rules and the cases that hold them

Made by `Tests/Proof/Conformance/run --coverage` from [the documents](../Protocols) and from the cases of
[Tests/Proof/Conformance](../../Tests/Proof/Conformance/README.md), which run against this program and against others. Each paragraph,
list item and table row of a numbered section is a rule; one that says several things has several statements, each
with a letter.

*Strict* is what stock chat servers, apps or phones depend on: an implementation that answers otherwise fails. What *may
differ* is told without failing the run, for the reason below each document's tables. What cannot be seen from outside
over HTTP has the reason in place of a case and, where there is one, the test that holds it.
"""


class Coverage:
    """`held` has the cases of each statement, `unseen` why it has none: both by the rule's id and, where it says several
    things, the statement's letter."""

    def __init__(self):
        self.rules = {document: rules.read(document) for document in rules.documents()}
        self.options = yaml.safe_load((HERE / "options.yaml").read_text()) or {}
        self.held = {}
        self.errors = []
        for suite, name, names, option in self.cases():
            if option is not None and option not in self.options:
                self.errors.append(f"{suite}: {name}: options.yaml has no {option}")
            for rule in names:
                for statement in self.find(suite.split("_")[0], rule, f"{suite}: {name}"):
                    self.held.setdefault(statement, []).append((name, option))
        self.unseen = {}
        for document, groups in yaml.safe_load((HERE / "unseen.yaml").read_text()).items():
            for group in groups:
                for rule in group["rules"]:
                    for statement in self.find(document, rule, "unseen.yaml", whole=True):
                        if statement in self.held:
                            self.errors.append(f"unseen.yaml: a case holds {statement}")
                        if statement in self.unseen:
                            self.errors.append(f"unseen.yaml: {statement} is there twice")
                        self.unseen[statement] = group
                if "test" in group and not self.is_test(*group["test"].split(": ", 1)):
                    self.errors.append(f"unseen.yaml: there is no test {group['test']}")

    @staticmethod
    def is_test(file, name):
        return any(f"`{name}`" in path.read_text() for path in (ROOT / "Tests").glob(f"*/*Tests/**/{file}"))

    @staticmethod
    def statements(rule):
        return [rule.id + (f".{letter}" if letter else "") for letter in rule.statements]

    def find(self, document, name, place, whole=False):
        """The statements of that name, `SECTION/SLUG.ab`; the slug's beginning is enough where no other rule of the section
        begins so. Only where `whole` is true does a rule of several statements need no letters."""
        known = self.rules[document]
        section, _, slug = name.removeprefix(document + "/").partition("/")
        slug, _, letters = slug.partition(".")
        id = f"{document}/{section}/{slug}"
        found = [id] if id in known else [other for other in known if other.startswith(id + "-")]
        if len(found) != 1:
            self.errors.append(f"{place}: {name} " + (f"may be {' or '.join(found)}" if found else "is no rule"))
            return []
        rule = known[found[0]]
        if not letters and len(rule.statements) > 1 and not whole:
            self.errors.append(f"{place}: {name} says which of {', '.join(self.statements(rule))} the case holds")
        if missing := set(letters) - set(rule.statements):
            self.errors.append(f"{place}: {rule.id} has no statement {', '.join(sorted(missing))}")
        return [statement for statement in self.statements(rule) if not letters or statement.rpartition(".")[2] in letters]

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
        return [statement for known in self.rules.values() for rule in known.values() for statement in self.statements(rule)
                if statement not in self.held and statement not in self.unseen]

    def page(self):
        yield HEAD
        for document, known in self.rules.items():
            said = [statement for rule in known.values() for statement in self.statements(rule)]
            kinds = [self.kind(statement) for statement in said]
            yield (f"## {document.capitalize()}.md\n\n{len(known)} rules with {len(said)} statements: {kinds.count('strict')} strict, "
                   f"{kinds.count('may differ')} that may differ, {kinds.count('unseen')} without a case, for the reason that is given.\n")
            section = None
            options = set()
            for rule in known.values():
                if rule.section != section:
                    section = rule.section
                    yield f"\n### {section} {plain(rule.title)}\n\n| statement | | cases |\n|---|---|---|"
                for statement, text in zip(self.statements(rule), rule.statements.values()):
                    name = statement.split("/", 2)[2]
                    yield f"| `{name}`<br>{plain(text)} | {self.kind(statement)} | {self.shown(statement, document)} |"
                    options |= {option for _, option in self.held.get(statement, [])} - {None}
            if options:
                yield f"\n### What may differ from {document.capitalize()}.md\n"
                for name in sorted(options):
                    yield f'- <a id="{document}-{name}"></a>**{name}**: {self.options[name]}'
            yield ""

    def kind(self, statement):
        if statement in self.held:
            return "strict" if any(option is None for _, option in self.held[statement]) else "may differ"
        return "unseen" if statement in self.unseen else ""

    def shown(self, statement, document):
        """The cell of its cases, or of the reason why there is none."""
        if statement in self.held:
            # The same name may stand in several suites.
            return "<br>".join(dict.fromkeys(
                plain(name) + (f" [{option}](#{document}-{option})" if option else "") for name, option in self.held[statement]))
        if group := self.unseen.get(statement):
            return "*" + plain(group["why"]) + "*" + (f" `{group['test']}`" if "test" in group else "")
        return ""


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
        print(f"{PAGE.relative_to(ROOT)}: {len(found.held)} statements have cases, {len(found.unseen)} cannot be seen, {len(found.empty)} have neither")
    elif not PAGE.exists() or PAGE.read_text() != page:
        found.errors.append("Documentation/Proof/Conformance.md is stale: Tests/Proof/Conformance/run --coverage writes it")
    found.errors += [f"{id} has no case" for id in found.empty]
    for error in found.errors:
        print(error, file=sys.stderr)
    return 1 if found.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
