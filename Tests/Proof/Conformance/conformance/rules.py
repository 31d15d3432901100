"""The rules that the pages of Documentation/Protocols lay down.

A paragraph, list item or row of a table that ends with an id, `<!-- rule: topic -->`, is a rule: `webpush:topic`. Its words
may change, its id stays.
"""

import dataclasses
import re
from pathlib import Path

DOCUMENTS = Path(__file__).resolve().parents[4] / "Documentation" / "Protocols"
ID = re.compile(r" <!-- rule: ([a-z0-9]+(?:-[a-z0-9]+)*) -->( \|)?$")


@dataclasses.dataclass(frozen=True)
class Rule:
    id: str
    section: str
    text: str


def documents():
    return {path.stem.lower(): path for path in sorted(DOCUMENTS.glob("*.md"))}


def read(document, page):
    """The rules of a page, in its order."""
    section, text, in_code = "", [], False
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        if in_code or not line.strip():
            text = []
            continue
        if line.startswith("#"):
            section = line.lstrip("# ")
        if re.match(r"\||\s*([-*]|[0-9]+\.) ", line):
            text = []
        text.append(line.strip().strip("|").strip())
        if found := ID.search(line):
            yield Rule(f"{document}:{found[1]}", section, ID.sub("", " ".join(text)))
        elif "<!-- rule" in line:
            raise SystemExit(f"{document}, line {number}: an id is ` <!-- rule: some-name -->` at the end")
