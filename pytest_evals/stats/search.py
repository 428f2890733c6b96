"""Search over sample sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def first_that(
    holds: Callable[[int], bool], least: int, most: int, guess: int = 0
) -> int | None:
    """Return the smallest integer for which a monotone condition holds; ``None`` if it
    holds for none.

    Args:
        holds: The condition.
        least: The smallest candidate.
        most: The largest candidate.
        guess: A starting point, which saves evaluations.
    """
    high = min(max(least, guess), most)
    low, step = high, max(1, high // 20)
    if holds(high):
        while low > least:
            low = max(least, high - step)
            if not holds(low):
                low += 1
                break
            high, step = low, 2 * step
    else:
        low = high + 1
        while True:
            if low > most:
                return None
            high = min(high + step, most)
            if holds(high):
                break
            low, step = high + 1, 2 * step
    return low + bisect_left(range(low, high), True, key=holds)
