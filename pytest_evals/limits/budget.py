"""What one rendering of a template may still take, counted per thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any

from jinja2 import TemplateRuntimeError

from pytest_evals.errors import DocumentError

LARGEST = 2**25
"""Characters of a text that a template makes; an entry of a list counts as eight."""
_IN_ALL = 2**28
"""Characters of all texts that one rendering makes."""
MOST_STEPS = 2_000_000
"""Rounds of loops; a call counts as ten."""
SECONDS = 5.0
"""For what no count sees."""
_SHORT = 16
"""Rounds of a loop that are counted when it begins."""
_MOST_PARTS = 1_000_000
"""Values in a value."""


class TemplateLimitError(DocumentError, TemplateRuntimeError):
    """A template takes too long, or makes too long a text."""

    @property
    def message(self) -> str:
        """The text, as Jinja's errors have it."""
        return str(self)


class _Budget(threading.local):
    size = _IN_ALL
    steps = MOST_STEPS
    deadline = float("inf")


_NOW = _Budget()


def begin() -> None:
    """Begin a rendering, or a compilation, which renders what is constant."""
    _NOW.size, _NOW.steps = _IN_ALL, MOST_STEPS
    _NOW.deadline = monotonic() + SECONDS


def spend(size: int) -> None:
    """Take the characters of a text that is about to be made, or was made.

    Raises:
        TemplateLimitError: There are not as many left.
    """
    _NOW.size = left = _NOW.size - size
    if left < 0 or size > LARGEST:
        raise TemplateLimitError(
            f"the template makes more than {LARGEST:,} characters, or more than "
            f"{_IN_ALL:,} on the way"
        )


def step(n: int = 1) -> None:
    """Take rounds of a loop.

    Raises:
        TemplateLimitError: There are not as many left, or time is over.
    """
    _NOW.steps = left = _NOW.steps - n
    if left < 0:
        raise TemplateLimitError(
            f"the template takes more than {MOST_STEPS:,} rounds of loops"
        )
    if monotonic() > _NOW.deadline:
        raise TemplateLimitError(f"the template takes longer than {SECONDS:g} s")


def counted(items: Iterable[Any]) -> Iterable[Any]:
    """What a loop goes over, each round counted."""
    if isinstance(items, list | tuple | dict | range) and len(items) <= _SHORT:
        step(len(items) + 1)
        return items
    return _rounds(items)


def _rounds(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        step()
        yield item


def weight(value: Any) -> int:
    """About as many characters as a value has when it is written, with all that is in
    it; a large number for one that has too many parts to be counted."""
    if isinstance(value, str | bytes):
        return len(value)
    total, n, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        n += 1
        if isinstance(one, str | bytes):
            total += len(one)
        elif isinstance(one, dict):
            waiting += one
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
        if n > _MOST_PARTS or len(waiting) > _MOST_PARTS:
            return _IN_ALL
    return total + 2 * n
