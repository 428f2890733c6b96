"""Remaining budget of one template rendering, counted per thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any

from jinja2 import TemplateRuntimeError

from pytest_evals.errors import DocumentError

LARGEST = 2**25
"""Maximum characters of a string that a template creates; a list item counts as
eight."""
_IN_ALL = 2**28
"""Maximum characters of all strings that one rendering creates."""
MOST_STEPS = 2_000_000
"""Maximum loop iterations; a call counts as ten."""
SECONDS = 5.0
"""Time limit, for work that is not counted."""
_SHORT = 16
"""Iterations of a loop that are counted when it starts."""
_MOST_PARTS = 1_000_000
"""Maximum number of values inside one value."""


class TemplateLimitError(DocumentError, TemplateRuntimeError):
    """A template exceeds the time limit or creates too long a string."""

    @property
    def message(self) -> str:
        """Return the message, as Jinja's errors do."""
        return str(self)


class _Budget(threading.local):
    size = _IN_ALL
    steps = MOST_STEPS
    deadline = float("inf")


_NOW = _Budget()


def begin() -> None:
    """Start a rendering, or a compilation, which renders constant expressions."""
    _NOW.size, _NOW.steps = _IN_ALL, MOST_STEPS
    _NOW.deadline = monotonic() + SECONDS


def spend(size: int) -> None:
    """Subtract the characters of a string that is created. Raises TemplateLimitError if
    the budget is exceeded."""
    _NOW.size = left = _NOW.size - size
    if left < 0 or size > LARGEST:
        raise TemplateLimitError(
            f"the template makes more than {LARGEST:,} characters, or more than "
            f"{_IN_ALL:,} on the way"
        )


def step(n: int = 1) -> None:
    """Subtract loop iterations. Raises TemplateLimitError if the budget or the time
    limit is exceeded."""
    _NOW.steps = left = _NOW.steps - n
    if left < 0:
        raise TemplateLimitError(
            f"the template takes more than {MOST_STEPS:,} rounds of loops"
        )
    if monotonic() > _NOW.deadline:
        raise TemplateLimitError(f"the template takes longer than {SECONDS:g} s")


def counted(items: Iterable[Any]) -> Iterable[Any]:
    """Return an iterable that counts each iteration of a loop."""
    if isinstance(items, list | tuple | dict | range) and len(items) <= _SHORT:
        step(len(items) + 1)
        return items
    return _rounds(items)


def _rounds(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        step()
        yield item


def weight(value: Any) -> int:
    """Return the approximate number of characters of a value with its contents; a large
    number for one with too many parts to count."""
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
