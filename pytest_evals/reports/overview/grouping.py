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
    subject, cause = ones[0]
    subjects = [*dict.fromkeys(subject for subject, _ in ones)]
    named = ", ".join(subjects[:_SHOWN])
    if len(subjects) > _SHOWN:
        named += f" and {len(subjects) - _SHOWN} more"
    if len({cause for _, cause in ones}) > 1:
        named += f" (numbers of {subject})"
    return f"{named}: {cause}" if named else cause
