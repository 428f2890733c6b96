"""Analysis of pre-tokenizers: whether they split independently on both sides of a space
between letters, or between punctuation and a letter.

Regular expressions match from left to right, each match starting where the previous one
ended. Splitting is independent if the pattern has no look-behind and no alternative
matches or looks past such a space.
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
"""Pre-tokenizers that split runs of one character class and look at the character after
a run."""
_PROPERTY = r"\\p\{\w+\}"
_SET = rf"\[\^?(?:{_PROPERTY}|\\[rntsdS]|\\\W|[^\\\[\]])+\]"
_ATOM = rf"{_PROPERTY}|\\[sSdrn/]|{_SET}|[^\\()\[\]{{}}.*+?|^$]"
_SHORT_FORMS = r"'?\(\?i?:(?:'?(?:\w+|\[\w+\])\|?)+\)"
_COUNT = r"(?:[?*+]|\{\d+(?:,\d*)?\})?\+?"
_ITEM = re.compile(rf"(?P<atom>{_ATOM}|{_SHORT_FORMS}){_COUNT}")
_NO_PUNCTUATION = re.compile(r"\\[srnt]| |\[(?:\\[srnt])+\]|\\p\{[LM]\w?\}")
"""Atoms that match neither digits nor punctuation."""
_LOOK_AHEAD = r"(?!\S)"
_LINE_END = {r"\s+$", r"\s++$"}  # White space up to a line's end; looks past a run
_BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
"""Nested character set, which the parser does not support: letters without white
space."""


def splits_at_boundaries(
    splitter: Mapping[str, Any],
    normalizers: Sequence[Mapping[str, Any]],
    punctuation: bool,
) -> bool:
    """Whether a pre-tokenizer keeps no state across a space between letters.
    ``normalizers``: serialized states of the normalizers before it. ``punctuation``:
    whether a digit or punctuation may precede the space too."""
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
    alternatives = _alternatives(pattern["Regex"])
    return all(_stays_in_runs(one, punctuation) for one in alternatives)


def _alternatives(pattern: str) -> list[str]:
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


def _stays_in_runs(alternative: str, punctuation: bool) -> bool:
    """Whether the alternative never matches a letter (or ``punctuation``) and a later
    space, so that a match ends at the boundary. Patterns that cannot be parsed count as
    matching everything."""
    if alternative in _LINE_END:
        return True
    alternative = alternative.removesuffix(_LOOK_AHEAD)
    had_letters, had_punctuation, place = False, False, 0
    while place < len(alternative):
        item = _ITEM.match(alternative, place)
        if item is None:
            return False
        letters, space = _takes(item["atom"])
        had_letters = had_letters or letters
        if had_letters and space:
            return False
        takes = punctuation and not _NO_PUNCTUATION.fullmatch(item["atom"])
        repeats = item[0].removeprefix(item["atom"]) not in ("", "?")
        if space and (had_punctuation or (takes and repeats)):
            return False
        had_punctuation = had_punctuation or takes
        place = item.end()
    return place > 0


def _takes(atom: str) -> tuple[bool, bool]:
    """Whether an atom can match letters, and whether it can match a space."""
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
