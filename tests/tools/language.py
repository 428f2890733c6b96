"""Find unclear wording in the docs, docstrings and messages::

    python -m tests.tools.language [PATH...]

prints each place with a better wording, and the number of vague words per 1,000.
``tests/test_language.py`` fails on them. Code is left out: fenced blocks and inline
code of pages, double backticks of docstrings, literals without spaces.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_evals"
VAGUE = re.compile(r"\b(say|says|said|stands?|told|tells?|whoever|whatever)\b", re.I)
PAIRS = {
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|fewer\b|less\b|such\b)": (
        "is not a, isn't a valid; has no"
    ),
    r"\b(?:is|are) (?:told|said|asked for)(?! of\b)\b": "is reported, is requested",
    r"\btold of\b": "reported",
    r"\b(?:say|says|said) so\b": "reports it, shows a warning",
    r"\bas far as\b": "if, where, up to",
    r"\b(?:stands?|lies?) (?:in|on|there|under|below|next)\b": "is in, is listed in",
    r"\bstands? (?:for|out|between)\b": "means, differs, is between",
    r"\bhangs? (?:on|together)\b": "depends on; is clustered",
    r"\b(?:has|have|had) a say\b": "affects, decides",
    r"\b(?:takes?|taken|took) back\b": "undo, revoke",
    r"\bgo(?:es)? on\b": "continue",
    r"\bslips? of the pen\b": "did you mean ...?",
    r"\bsee to\b": "resolve",
    r"\b(?:in|of|for) so many\b": "x% of the time",
    r"\bby (?:itself|themselves)\b": "on its own, alone, automatically",
    r"(?<!one )\bof (?:its|one's|their|your) own\b": "custom, separate; its own ...",
    r"\bbeside\b": "next to, compared with",
    r"\breckon(?:ed|s)?\b": "computed",
    r"\bcounted apart\b|\btold apart\b": "counted separately, distinguished",
    r"\bturns? (?:red|green)\b": "fails, passes",
    r"\b(?:is|are|be|been|never|comes) (?:red|green)\b": "failed, passed",
    r"\bfalse (?:red|green|alarm)s?\b": "false positive, false negative",
    r"\bbetter when (?:lower|higher)\b": "lower is better, higher is better",
    r"\btruths?\b": "boolean",
    r"\btokens read\b": "tokens prefilled",
    r"\b(?:on|under) (?:its|their) way\b": "in flight",
    r"\bis wanted\b|\bare wanted\b|\bwants (?:a|an|the|no)\b": "expected, needs",
    r"\bhas nothing to\b": "does not",
    r"\bthere (?:is|are) none\b": "missing, not available",
    r"\bcrew\b|\bshelf\b|\bfurthers\b": "workers, cache, auxiliary models",
    r"\bin one go\b|\bat a stroke\b": "at once, in one step",
    r"\bnot any ?more\b": "no longer",
    r"\bout there\b": "in production",
}
"""Pattern -> better wording."""
FOREIGN = ("guests/lighteval/metrics/judges", "guests/lighteval/official")
"""Folders whose literals are data of benchmarks."""


class Text(NamedTuple):
    """A piece of prose."""

    path: Path
    line: int
    kind: str
    prose: str


class Hit(NamedTuple):
    """An unclear wording."""

    text: Text
    words: str
    better: str

    def __str__(self) -> str:
        place = f"{self.text.path.relative_to(ROOT)}:{self.text.line}"
        return f"{place}: {self.words!r}: {self.better}"


def pages() -> list[Path]:
    """The pages, without the changelog."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    written = [path for path in docs if path.name != "changelog.md"]
    return [*written, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def page_texts(path: Path) -> Iterator[Text]:
    """Lines of a page without code, links' targets and comments."""
    text = path.read_text(encoding="utf-8")
    for pattern in (r"^```.*?^```", r"<!--.*?-->", r"`[^`\n]+`", r"\]\([^)\n]*\)"):
        text = re.sub(pattern, _blank, text, flags=re.MULTILINE | re.DOTALL)
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield Text(path, number, "docs", line)


def _blank(found: re.Match[str]) -> str:
    return "\N{HORIZONTAL ELLIPSIS}" + "\n" * found[0].count("\n")


def module_texts(path: Path) -> Iterator[Text]:
    """Docstrings of a module, and literals that contain a sentence."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as value):
                documented.add(id(value))
                prose = re.sub(r"``.*?``", "\N{HORIZONTAL ELLIPSIS}", text, flags=re.S)
                for number, line in enumerate(prose.splitlines()):
                    yield Text(path, value.lineno + number, "docstrings", line)
    if any(part in path.as_posix() for part in FOREIGN):
        return
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=values):
                parts = [part for part in values if isinstance(part, ast.Constant)]
                documented.update(map(id, parts))
                joined = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in values
                )
                yield from _message(path, node.lineno, joined)
            case ast.Constant(value=str(text)) if id(node) not in documented:
                yield from _message(path, node.lineno, text)


def _message(path: Path, line: int, text: str) -> Iterator[Text]:
    if len(re.findall(r"[a-z]+", text)) > 1 and " " in text.strip():
        yield Text(path, line, "messages", text)


def texts(paths: list[Path]) -> Iterator[Text]:
    """All prose of pages and modules."""
    for path in paths:
        read = page_texts if path.suffix == ".md" else module_texts
        yield from read(path)


def hits(prose: list[Text]) -> list[Hit]:
    """Every place where a pattern matches."""
    return [
        Hit(text, found[0].strip(), better)
        for pattern, better in COMPILED
        for text in prose
        for found in pattern.finditer(text.prose)
    ]


COMPILED = [(re.compile(pattern, re.I), better) for pattern, better in PAIRS.items()]


def vague(prose: list[Text]) -> list[Hit]:
    """Every vague word."""
    return [
        Hit(text, found[0], "name what happens")
        for text in prose
        for found in VAGUE.finditer(text.prose)
    ]


def in_folder(path: Path) -> list[Path]:
    return sorted([*path.rglob("*.py"), *path.rglob("*.md")])


def n_words(prose: list[Text]) -> int:
    return sum(len(re.findall(r"\w+", text.prose)) for text in prose)


def main() -> None:
    given = [Path(name).resolve() for name in sys.argv[1:]]
    paths = [
        file
        for path in given or [*pages(), PACKAGE]
        for file in (in_folder(path) if path.is_dir() else [path])
    ]
    prose = list(texts(paths))
    found = vague(prose)
    print(*hits(prose), *found, sep="\n")
    print(f"vague words: {1000 * len(found) / n_words(prose):.2f} per 1,000")


if __name__ == "__main__":
    main()
