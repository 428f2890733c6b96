"""Text of models, datasets and files, made safe to show on one line of a terminal.

Control characters, escape sequences, and characters that change the direction of
writing come out as Python escapes: what a model says never moves the cursor.
"""

from __future__ import annotations

import unicodedata

__all__ = ["cells", "cut", "one_line", "tail"]

_WORDS = {"\n": "⏎", "\r": "\\r", "\t": "\\t"}


def one_line(text: object) -> str:
    """The whole text on one line; line breaks as ``⏎``."""
    raw = str(text)
    if raw.isprintable():
        return raw
    return "".join(c if c.isprintable() else _WORDS.get(c) or _code(c) for c in raw)


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
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
