"""Warnings and notes grouped by cause."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"\d[\d.,]*")
_SHOWN = 2
"""Maximum number of subjects named in a line."""


def grouped(texts: Iterable[str]) -> list[str]:
    """Return one line for each cause, in order of the first.

    Each text is ``subject: cause``. Causes that differ only in their numbers and in the
    name of their subject are one cause, shown with the numbers of the first.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for text in texts:
        subject, colon, cause = text.partition(": ")
        if not colon:
            subject, cause = "", text
        name = subject.partition("::")[0]
        key = _NUMBER.sub("#", cause.replace(repr(name), "") if name else cause)
        found.setdefault(key if subject else text, []).append((subject, cause))
    return [_line(ones) for ones in found.values()]


def _line(ones: list[tuple[str, str]]) -> str:
    first, cause = ones[0]
    subjects = [*dict.fromkeys(subject for subject, _ in ones)]
    names = [subject.partition(" ")[0] for subject in subjects]
    words = {subject.partition(" ")[2] for subject in subjects}
    # "a failed" and "b failed" are "a, b failed".
    has_one = len(words) == 1
    named = ", ".join((names if has_one else subjects)[:_SHOWN])
    if len(subjects) > _SHOWN:
        named += f" and {len(subjects) - _SHOWN} more"
    if has_one:
        named = f"{named} {words.pop()}".rstrip()
    if len({text for _, text in ones}) > 1:
        named += f" (numbers of {first.partition(' ')[0]})"
    return f"{named}: {cause}" if named else cause
