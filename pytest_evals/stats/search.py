"""Search for numbers of documents."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

__all__ = ["first_that"]


def first_that(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """The smallest number from ``least`` to ``most`` for which a monotone condition
    holds; ``None`` if it holds for none."""
    step = least
    while not holds(step):
        if step >= most:
            return None
        least, step = step + 1, min(2 * step, most)
    return least + bisect_left(range(least, step + 1), True, key=holds)
