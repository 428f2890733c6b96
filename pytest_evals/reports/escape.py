"""Text of models, datasets and files, made safe to show on one line of a terminal.

Control characters, escape sequences, and characters that change the direction of
writing come out as Python escapes: what a model says never moves the cursor. The
joiners within words and emoji stay. Nor does it command the server of a CI whose log
this may become: GitHub's runner obeys lines that begin with ``::error`` and lines that
hold ``##[error]`` (actions/runner, ``ActionCommand.cs``).
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

_COMMAND = re.compile(r"(?:\A\s*:(?=:)|#(?=#\[))")
_JOINERS = "\u200c\u200d"
_WORDS = {"\n": "⏎", "\r": "\\r", "\t": "\\t"}


def one_line(text: object) -> str:
    """The whole text on one line; line breaks as ``⏎``."""
    raw = str(text)
    if not raw.isprintable():
        raw = "".join(
            c if c.isprintable() or c in _JOINERS else _WORDS.get(c) or _code(c)
            for c in raw
        )
    if "::" in raw or "##[" in raw:
        return _COMMAND.sub(
            lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):x}", raw
        )
    return raw


def safe_lines(text: object) -> list[str]:
    """The lines of a text, each as by :func:`one_line`."""
    return [one_line(line) for line in str(text).splitlines()]


def near(path: Path, here: Path) -> str:
    """A path as one would type it in a folder."""
    inside = path.is_relative_to(here)
    return one_line(path.relative_to(here) if inside else path)


def cut(text: object, most: int) -> str:
    """The beginning of a text on one line, with ``…`` where it goes on; at most that
    many columns of a terminal."""
    raw = str(text)
    shown = one_line(raw[: most + 1])
    if len(raw) <= most + 1 and cells(shown) <= most:
        return shown
    while shown and cells(shown) > most - 1:
        shown = shown[:-1]
    return f"{shown}…" if most > 0 else ""


def tail(text: object, most: int) -> str:
    """The last ``most`` characters of a text on one line, after ``…`` if there are
    more."""
    raw = str(text)
    return one_line(raw) if len(raw) <= most else f"…{one_line(raw[-most:])}"


def cells(text: str) -> int:
    """Columns of a terminal that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(c) or c in _JOINERS
        else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
