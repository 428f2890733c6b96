"""Untrusted text from models, datasets and files, escaped for one line of a terminal.

Control characters, escape sequences and bidirectional overrides become Python escapes,
so a model's answer cannot move the cursor. Joiners within words and emoji are kept. CI
log commands are neutralized too: GitHub's runner interprets lines that start with
``::error`` and lines that contain ``##[error]`` (actions/runner, ``ActionCommand.cs``).
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from pathlib import Path

_COMMAND = re.compile(r"(?:\A\s*:(?=:)|#(?=#\[))")
_JOINERS = "\u200c\u200d"
_WORDS = {"\n": "⏎", "\r": "\\r", "\t": "\\t"}


def one_line(text: object) -> str:
    """Return the text on one line; line breaks become ``⏎``."""
    raw = str(text)
    if not raw.isprintable():
        raw = "".join(
            c
            if c.isprintable() or c in _JOINERS
            else _WORDS.get(c) or c.encode("unicode_escape").decode("ascii")
            for c in raw
        )
    if "::" in raw or "##[" in raw:
        return _COMMAND.sub(
            lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):x}", raw
        )
    return raw


def safe_lines(text: object) -> list[str]:
    """Return the lines of a text, each escaped like :func:`one_line`."""
    return [one_line(line) for line in str(text).splitlines()]


_LABEL = re.compile(r"\s*(?:[E!?-] {3}|\S+ {2,}|contexts |fix: )?")
"""The start of a line: its indentation, and the mark or the name before its text."""
_LEAST_WIDTH = 40


def wrapped(line: str, width: int, taken: int = 0) -> list[str]:
    """Return a line of a message in lines of at most ``width`` columns; further ones
    begin below its text. Commands stay on one line, so that they can be copied.
    ``taken``: number of columns that are in use in front of the first line."""
    if (
        len(line) <= width - taken
        or width < _LEAST_WIDTH
        or line.lstrip().startswith("pytest ")
    ):
        return [line]
    start = _LABEL.match(line)
    indent = start.end() if start and start.end() <= width // 3 else 0
    parts = textwrap.wrap(
        line,
        width,
        initial_indent=" " * taken,
        subsequent_indent=" " * (indent or 4),
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [parts[0][taken:], *parts[1:]]


def near(path: Path, here: Path) -> str:
    """Return a path relative to a folder, as a user would type it."""
    inside = path.is_relative_to(here)
    return one_line(path.relative_to(here) if inside else path)


def cut(text: object, most: int) -> str:
    """Return the start of a text on one line, ending with ``…`` if truncated to this
    number of terminal columns."""
    raw = str(text)
    shown = one_line(raw[: most + 1])
    if len(raw) <= most + 1 and cells(shown) <= most:
        return shown
    while shown and cells(shown) > most - 1:
        shown = shown[:-1]
    return f"{shown}…" if most > 0 else ""


def middle(text: str, most: int, head: int) -> str:
    """Return printable text with ``…`` instead of its middle if it takes more than
    ``most`` terminal columns.

    Args:
        most: Maximum number of terminal columns.
        head: Number of them for the start; the end gets the others.
    """
    if cells(text) <= most:
        return text
    start, end = min(head, len(text)), max(0, len(text) - (most - head - 1))
    while cells(text[:start]) > head:
        start -= 1
    while cells(text[end:]) > most - head - 1:
        end += 1
    return f"{text[:start]}…{text[end:]}" if most > 0 else ""


def tail(text: object, most: int) -> str:
    """Return the last ``most`` characters of a text on one line, after ``…``."""
    raw = str(text)
    return one_line(raw) if len(raw) <= most else f"…{one_line(raw[-most:])}"


def cells(text: str) -> int:
    """Return the number of terminal columns of printable text."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(c) or c in _JOINERS
        else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )
