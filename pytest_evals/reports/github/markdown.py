"""GitHub Markdown with untrusted text: model output is shown literally and is never
markup, a link, a mention or a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_evals.reports.escape import one_line

_MARKUP = re.compile(r"[!-/;-@\[-^`{-~]|^:|:(?=\S)|(?<![^\W_])_|_(?![^\W_])")
"""ASCII punctuation that may be markup: not a colon before a blank, and not a _ between
letters. Each can be written as a numeric reference (CommonMark 0.31,
2.5)."""
_HARMLESS = frozenset("%(),-./;=?'\"{}^+")
"""Punctuation without a meaning inside a line, so that names stay readable."""
_INTERVAL = re.compile(r"(\[[-+.,%\d ]+\](?![\[(:]))")
"""Numbers in brackets, which are not a link: ``90% CI [0.70, 0.80]``."""
_LINK = re.compile(r"(?i)\bwww(?=\.)")
_APART = "&#8203;"
"""A zero-width space: GitHub does not turn text that contains it into a link or a
mention."""
_TICKS = re.compile(r"`+")


def plain(text: object) -> str:
    """Return text on one line, escaped."""
    parts = _INTERVAL.split(one_line(text))  # text, interval, text, …
    parts[::2] = [_MARKUP.sub(_by_number, part) for part in parts[::2]]
    shown = _LINK.sub(rf"\g<0>{_APART}", "".join(parts))
    return f"&#{ord('+')};{shown[1:]}" if shown.startswith("+") else shown


def code(text: object) -> str:
    """Return text on one line, as code; also valid in a table cell."""
    shown = one_line(text)
    if not shown.strip():
        return ""
    if "|" in shown or "`" in shown or shown != shown.strip():
        return f"<code>{plain(shown)}</code>"
    return f"`{shown}`"


def fenced(lines: Iterable[object]) -> str:
    """Return lines as a literal block."""
    shown = "\n".join(map(one_line, lines))
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table.

    Args:
        heading: Titles of the columns; one that ends in a colon is right-aligned.
        rows: Cells by :func:`plain` or :func:`code`.
    """
    titles = [title.removesuffix(":") for title in heading]
    rules = ["--:" if title.endswith(":") else "---" for title in heading]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows))


def details(summary: str, body: str, *, is_open: bool = False) -> str:
    """Return a collapsible block."""
    tag = "<details open>" if is_open else "<details>"
    return f"{tag}\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _by_number(found: re.Match[str]) -> str:
    sign = found[0]
    if sign in _HARMLESS:
        return sign
    return f"&#{ord(sign)};{_APART if sign in '@#' else ''}"
