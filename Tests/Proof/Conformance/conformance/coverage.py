"""Which cases hold which rules of Documentation/Protocols: checks that each has one, or a reason in unseen.yaml why not.

    python -m conformance.coverage --check | --write    --write also makes .build/conformance/rules.md, a table of them
"""

import importlib.util
import re
import sys

import yaml

from . import cases, rules

HERE = cases.HERE
ROOT = HERE.parents[2]
TABLE = ROOT / ".build" / "conformance" / "rules.md"

HEAD = """# The rules of the protocols, and the cases that hold them

*Strict* is what stock chat servers, apps or phones depend on: an implementation that answers otherwise fails. What *may
differ* is told without failing the run, for the reason below each table. What cannot be seen from outside over HTTP has
the reason in place of a case and, where there are some, the tests that hold it.
"""


class Coverage:
    """`held` has the cases of each rule, `unseen` why it has none: both by the rule's id."""

    def __init__(self):
        self.errors = []
        self.rules = {}
        for document, path in rules.documents().items():
            for rule in rules.read(document, path.read_text()):
                if rule.id in self.rules:
                    self.errors.append(f"{path.name}: {rule.id} is there twice")
                self.rules[rule.id] = rule
        self.options = yaml.safe_load((HERE / "options.yaml").read_text()) or {}
        self.held = {}
        for suite, name, names, option in self.cases():
            if option is not None and option not in self.options:
                self.errors.append(f"{suite}: {name}: options.yaml has no {option}")
            for rule in self.known(suite.split("_")[0], names, f"{suite}: {name}"):
                self.held.setdefault(rule, []).append((name, option))
        self.unseen = {}
        for document, groups in yaml.safe_load((HERE / "unseen.yaml").read_text()).items():
            for group in groups:
                for rule in self.known(document, group["rules"], "unseen.yaml"):
                    if rule in self.held:
                        self.errors.append(f"unseen.yaml: a case holds {rule}")
                    if rule in self.unseen:
                        self.errors.append(f"unseen.yaml: {rule} is there twice")
                    self.unseen[rule] = group
                self.errors += [f"unseen.yaml: there is no test {test}" for test in group.get("tests", [])
                                if not self.is_test(*test.split(": ", 1))]
        self.errors += [f"{rule} has no case" for rule in self.rules if rule not in self.held and rule not in self.unseen]

    @staticmethod
    def is_test(file, name):
        return any(f"`{name}`" in path.read_text() for path in (ROOT / "Tests").glob(f"*/*Tests/**/{file}"))

    def known(self, document, names, place):
        """The ids of the document's rules of these names."""
        ids = [f"{document}:{name}" for name in names]
        self.errors += [f"{place}: {id} is no rule" for id in ids if id not in self.rules]
        return [id for id in ids if id in self.rules]

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

    def table(self):
        yield HEAD
        for document, path in rules.documents().items():
            known = [rule for rule in self.rules.values() if rule.id.startswith(document + ":")]
            kinds = [self.kind(rule.id) for rule in known]
            yield (f"## {path.name}\n\n{len(known)} rules: {kinds.count('strict')} strict, {kinds.count('may differ')} that may differ, "
                   f"{kinds.count('unseen')} without a case.\n")
            section, options = None, set()
            for rule, kind in zip(known, kinds):
                if rule.section != section:
                    section = rule.section
                    yield f"\n### {section}\n\n| rule | | cases |\n|---|---|---|"
                yield f"| `{rule.id}`<br>{plain(rule.text)} | {kind} | {self.shown(rule.id)} |"
                options |= {option for _, option in self.held.get(rule.id, [])} - {None}
            yield f"\n### What may differ from {path.name}\n"
            yield from (f"- **{name}**: {self.options[name]}" for name in sorted(options))
            yield ""

    def kind(self, rule):
        if rule in self.held:
            return "strict" if any(option is None for _, option in self.held[rule]) else "may differ"
        return "unseen" if rule in self.unseen else ""

    def shown(self, rule):
        """The cell of its cases, or of the reason why there is none."""
        if rule in self.held:
            # The same name may stand in several suites.
            return "<br>".join(dict.fromkeys(plain(name) + (f" [{option}]" if option else "") for name, option in self.held[rule]))
        group = self.unseen.get(rule, {"why": ""})
        return "<br>".join([plain(group["why"]), *(f"`{test}`" for test in group.get("tests", []))])


def plain(text):
    """As the cell of a table, without links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("\\|", "|").replace("|", "\\|").replace("<", "&lt;")


def main(mode):
    found = Coverage()
    if mode == "--write":
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        TABLE.write_text("\n".join(found.table()))
        print(f"{TABLE.relative_to(ROOT)}: {len(found.rules)} rules, {len(found.held)} with cases, {len(found.unseen)} that cannot be seen")
    for error in found.errors:
        print(error, file=sys.stderr)
    return 1 if found.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
