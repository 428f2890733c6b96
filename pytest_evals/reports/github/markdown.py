"""GitHub's Markdown, made of text that may be anything: what a model says is shown as
it is, and is never markup, a link, a mention or a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_evals.reports.escape import one_line

_MARKUP = re.compile(r"[!-/:-@\[-`{-~]")
"""ASCII punctuation: each of it may be given by number (CommonMark 0.31, 2.5)."""
_HARMLESS = frozenset("%(),-./;=?'\"")
"""Of it, what means nothing inside a line, so that names stay readable."""
_LINK = re.compile(r"(?i)\bwww(?=\.)")
_APART = "&#8203;"
"""A space of no width: GitHub makes no link of what it stands in, and tells nobody."""
_TICKS = re.compile(r"`+")


def plain(text: object) -> str:
    """Text on one line, as text."""
    return _LINK.sub(rf"\g<0>{_APART}", _MARKUP.sub(_by_number, one_line(text)))


def code(text: object) -> str:
    """Text on one line, as code; also in a cell of a table."""
    shown = one_line(text)
    if not shown.strip():
        return ""
    if "|" in shown or "`" in shown or shown != shown.strip():
        return f"<code>{plain(shown)}</code>"
    return f"`{shown}`"


def fenced(lines: Iterable[object]) -> str:
    """Lines as a block that is shown as it is."""
    shown = "\n".join(map(one_line, lines))
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table.

    Args:
        heading: Titles of the columns; one that ends in a colon is aligned to the
            right.
        rows: Cells by :func:`plain` or :func:`code`.
    """
    titles = [title.removesuffix(":") for title in heading]
    rules = ["--:" if title.endswith(":") else "---" for title in heading]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows))


def details(summary: str, body: str, *, is_open: bool = False) -> str:
    """A block that can be opened.

    Args:
        summary: Its heading, by :func:`plain`.
        body: Markdown.
        is_open: Whether it is open from the start.
    """
    tag = "<details open>" if is_open else "<details>"
    return f"{tag}\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _by_number(found: re.Match[str]) -> str:
    sign = found[0]
    if sign in _HARMLESS:
        return sign
    return f"&#{ord(sign)};{_APART if sign in '@#' else ''}"
