"""What is known of the parts of tokenizers that split texts into words.

The question is whether what stands before a space between two letters is split alike
whatever follows, and what follows whatever stood before. A regular expression is tried
from left to right, each match where the last has ended; so this holds if it looks at
nothing behind, and if none of its alternatives goes or looks past such a space.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_SIMPLE = {
    "BertPreTokenizer",
    "ByteLevel",
    "Digits",
    "Metaspace",
    "Punctuation",
    "Whitespace",
    "WhitespaceSplit",
}
"""Splitters that look at runs of one kind of character, and at what follows a run."""
_PROPERTY = r"\\p\{\w+\}"
_SET = rf"\[\^?(?:{_PROPERTY}|\\[rntsdS]|\\\W|[^\\\[\]])+\]"
_ATOM = rf"{_PROPERTY}|\\[sSdrn/]|{_SET}|[^\\()\[\]{{}}.*+?|^$]"
_SHORT_FORMS = r"'?\(\?i?:(?:'?(?:\w+|\[\w+\])\|?)+\)"
_COUNT = r"(?:[?*+]|\{\d+(?:,\d*)?\})?\+?"
_ITEM = re.compile(rf"(?P<atom>{_ATOM}|{_SHORT_FORMS}){_COUNT}")
_LOOK_AHEAD = r"(?!\S)"
_LINE_END = {r"\s+$", r"\s++$"}
"""White space up to the end of a line: it looks one character past a run."""
_BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
"""A set within a set, which is not read here: it takes letters and no white space."""


def splits_at_boundaries(
    splitter: Mapping[str, Any], normalizers: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether a splitter carries nothing over a space between letters.

    Args:
        splitter: What it says of itself.
        normalizers: What the normalizers before it say of themselves.
    """
    if splitter["type"] in _SIMPLE:
        return True
    if splitter["type"] != "Split":
        return False
    pattern = splitter["pattern"]
    if pattern.get("String") == " ":
        # A space that a normalizer has replaced before is never there.
        return any(one.get("pattern") == {"String": " "} for one in normalizers)
    how = splitter["behavior"], splitter["invert"]
    if "Regex" not in pattern or how not in {("Isolated", False), ("Removed", True)}:
        return False
    return all(map(_stays_in_runs, _alternatives(pattern["Regex"])))


def _alternatives(pattern: str) -> list[str]:
    """What stands between the bars that are in no brackets."""
    if pattern == _BLOOM:
        return []
    parts, depth, start, place = [], 0, 0, 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 1
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif sign == "|" and depth == 0:
            parts.append(pattern[start:place])
            start = place + 1
        place += 1
    return [*parts, pattern[start:]]


def _stays_in_runs(alternative: str) -> bool:
    """Whether it takes no letter with a space somewhere behind it, so that a match
    that has come to a seam ends there. What cannot be read takes everything."""
    if alternative in _LINE_END:
        return True
    alternative = alternative.removesuffix(_LOOK_AHEAD)
    had_letters, place = False, 0
    while place < len(alternative):
        item = _ITEM.match(alternative, place)
        if item is None:
            return False
        letters, space = _takes(item["atom"])
        had_letters = had_letters or letters
        if had_letters and space:
            return False
        place = item.end()
    return place > 0


def _takes(atom: str) -> tuple[bool, bool]:
    """Whether it may take letters, and whether a space."""
    if atom[0] == "[" and atom[1] == "^":
        inside = atom[2:-1]
        return r"\p{L}" not in inside, not re.search(r"\\s| ", inside)
    if atom[0] == "[":
        inside = atom[1:-1]
        return True, bool(
            re.search(r"\\[sSD]| |\\p\{[ZC]|\\[rnts]-|[\x00-\x1f]-", inside)
        )
    if atom.startswith(r"\p"):
        return True, atom[3] in "ZC" or "pace" in atom
    if atom in (r"\s", " "):
        return False, True
    return atom not in (r"\d", r"\r", r"\n", r"\/"), False
