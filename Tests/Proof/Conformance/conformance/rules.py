"""The rules that the documents of Documentation/Protocols lay down.

Each paragraph, list item and table row of a numbered section is a rule. Its id is the document, the section's number and
a slug of its first words: `zulip/2.2/success-is-status-200-and`. Where these are not enough, or should outlive other
words, `<!-- rule: NAME -->` in the line before names it. Code belongs to the paragraph before it, and a line that only
leads to a table or a list (`and for a new one:`) is no rule.

A rule that says several things has as many statements, sentences or what semicolons part: `zulip/2.2/success-is.a`,
`.b` and so on, or `.ab` for both.
"""

import dataclasses
import itertools
import re
import string
from pathlib import Path

DOCUMENTS = Path(__file__).resolve().parents[4] / "Documentation" / "Protocols"
WORDS = 5
LENGTH = 48


@dataclasses.dataclass(frozen=True)
class Rule:
    id: str
    section: str
    title: str
    text: str
    line: int

    @property
    def statements(self):
        """What it says by its letters; one without a letter where it says one thing only."""
        parts = list(parted(self.text))
        return dict(zip(string.ascii_lowercase, parts)) if len(parts) > 1 else {"": self.text}


@dataclasses.dataclass
class Block:
    text: str
    line: int
    is_row: bool = False
    name: str | None = None
    leads: bool = False


def documents():
    return sorted(path.stem.lower() for path in DOCUMENTS.glob("*.md"))


def read(document):
    """The rules of a document by their ids, in their order."""
    path = next(path for path in DOCUMENTS.glob("*.md") if path.stem.lower() == document)
    rules = {}
    for section, title, blocks in sections(path.read_text().splitlines()):
        for block in blocks:
            if block.leads and len(block.text.split()) < 9 and "`" not in block.text:
                continue
            words = re.findall(r"[a-z0-9_]+", re.sub(r"\]\([^)]*\)", "]", block.text).lower())
            least = next(count for count in range(WORDS, 0, -1) if count == 1 or len("-".join(words[:count])) <= LENGTH)
            slugs = [block.name] if block.name else (
                "-".join(words[:least + more]) + ending for more, ending in itertools.chain(
                    ((more, "") for more in range(30)), ((0, f"-{number}") for number in itertools.count(2))))
            id = next(id for slug in slugs if (id := f"{document}/{section}/{slug}") not in rules)
            rules[id] = Rule(id, section, title, block.text, block.line)
    return rules


def parted(text):
    """The sentences of a text and what semicolons part in them. Code and parentheses stay whole; a few words that only
    lead on to what follows, and bold ones that only name it, are no statements of their own."""
    hidden = re.sub(r"`+[^`]*`+", lambda code: "x" * (len(code[0]) - 2) + code[0][-2:].replace("`", "x"), text)
    while (less := re.sub(r"\([^()]*\)", lambda group: "x" * len(group[0]), hidden)) != hidden:
        hidden = less
    ends = [end.end() for end in re.finditer(r"(?<!\.\.)[.;!?]\*{0,2}(?=\s)", hidden)]
    start = 0
    for end in [*ends, len(text)]:
        part = text[start:end].strip()
        is_lead = part.endswith(":") and len(part.split()) < 9 and "`" not in part and "order" not in part
        if not part or is_lead and start > 0 or re.fullmatch(r"\*\*[^*]{1,48}\*\*( \([^ ]*\)\.)?", part):
            continue
        yield text[start:end].strip()
        start = end


def sections(lines):
    """Each numbered section with its blocks."""
    section, title, blocks = None, None, []
    for line, text in headings(lines):
        if isinstance(text, tuple):
            if section:
                yield section, title, blocks
            (section, title), blocks = text, []
        else:
            blocks.append(text)
    if section:
        yield section, title, blocks


def headings(lines):
    """(line, (number, title)) for each heading and (line, Block) for all else that is below a numbered one."""
    block, name, in_code, numbered, table = None, None, False, False, 0

    def finished():
        if block is not None and numbered:
            yield block.line, block

    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("```"):
            in_code = not in_code
            yield from finished()
            block = None
            continue
        if in_code:
            continue
        anchor = re.fullmatch(r"\s*<!-- rule: ([a-z0-9_-]+) -->", line)
        heading = re.match(r"#+ (?:([0-9]+(?:\.[0-9]+)*)\.? +)?(.*)", line)
        item = re.match(r"\s*(?:[-*]|[0-9]+\.) +(.*)", line)
        begins_table = line.startswith("|") and table == 0
        table = table + 1 if line.startswith("|") else 0
        if (item or begins_table) and block is not None:
            block.leads = block.text.endswith(":")
        if anchor or heading or item or table or not line.strip():
            # A blank line between an introduction and its table or list does not part them.
            if line.strip() or not (block is not None and block.text.endswith(":")):
                yield from finished()
                block = None
        if anchor:
            name = anchor[1]
        elif heading:
            numbered = heading[1] is not None
            if numbered:
                yield number, (heading[1], heading[2])
            elif line.startswith("# ") or line.startswith("## "):
                numbered = False
        elif item:
            block, name = Block(item[1], number, name=name), None
        elif table > 2:
            # The first two lines are the table's head.
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            block, name = Block(" | ".join(cell.strip() for cell in cells), number, is_row=True, name=name), None
            yield from finished()
            block = None
        elif not table and line.strip():
            if block is None or block.text.endswith(":") and not lines[number - 2].strip():
                yield from finished()
                block, name = Block(line.strip(), number, name=name), None
            else:
                block.text += " " + line.strip()
    yield from finished()
