"""Worst-case number of steps of a regular expression on a string.

Python's ``re`` backtracks. A pattern with nested repetition, such as ``(a+)+$``, needs
exponentially many steps on some strings; most patterns need few on any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_LONGEST = 2**24
_LONGEST_PATTERN = 4096
"""Maximum characters; analyzing a longer pattern takes longer than using the worker
process."""


def longest_text(pattern: re.Pattern[str], most: float) -> int:
    """Return the string length, as a power of 2, that a search completes in about
    ``most`` steps; 0 for none, for a pattern that is too long to analyze, and for one
    whose parsed form this version of Python changed."""
    if len(pattern.pattern) > _LONGEST_PATTERN:
        return 0
    try:
        from re import _parser  # type: ignore[attr-defined]

        tree = list(_parser.parse(pattern.pattern, pattern.flags))
    except (ImportError, AttributeError, TypeError):
        return 0
    length = _LONGEST
    while length and (length + 1) * _sequence(tree, length, True).steps > most:
        length //= 2
    return length


class _Work(NamedTuple):
    """Upper bounds for a part of a pattern, from one position of a string.

    Args:
        ways: Number of ways in which it matches.
        steps: Number of steps to try all of them.
    """

    ways: float
    steps: float


_ONE = _Work(1, 1)
_ENDLESS = _Work(float("inf"), float("inf"))


def _sequence(items: Any, n: int, ends: bool) -> _Work:
    """``ends`` is true if the pattern ends after it: a repetition there matches
    greedily once, without backtracking."""
    ways, steps = 1.0, 1.0
    for place, (code, given) in enumerate(items, start=1):
        handler = _PARTS.get(str(code))
        if handler is None:
            return _ENDLESS
        one = handler(given, n, ends and place == len(items))
        steps += ways * one.steps
        ways *= one.ways
    return _Work(ways, steps)


def _branch(given: Any, n: int, ends: bool) -> _Work:
    parts = [_sequence(part, n, ends) for part in given[1]]
    return _Work(sum(p.ways for p in parts), sum(1 + p.steps for p in parts))


def _group(given: Any, n: int, ends: bool) -> _Work:
    return _sequence(given[-1], n, ends)


def _repeat(given: Any, n: int, ends: bool) -> _Work:
    least, most, inner = given
    one = _sequence(inner, n, False)
    times = least if ends else max(n, least)
    times = min(int(most), times)
    if one.ways <= 1:
        return _Work(times - least + 1, 1 + (1 + times) * (1 + one.steps))
    try:
        ways = one.ways ** min(int(most), max(n, least)) * 2
    except OverflowError:
        return _ENDLESS
    return _Work(ways, ways * one.steps)


def _atomic(given: Any, n: int, _ends: bool = False) -> _Work:
    """Return the work without backtracking after the first match."""
    return _Work(1, _sequence(given, n, False).steps)


def _conditional(given: Any, n: int, ends: bool) -> _Work:
    parts = [_sequence(part or (), n, ends) for part in given[1:]]
    return _Work(sum(p.ways for p in parts), sum(p.steps for p in parts))


_PARTS: Mapping[str, Callable[[Any, int, bool], _Work]] = {
    **dict.fromkeys(
        ("ANY", "AT", "CATEGORY", "FAILURE", "IN", "LITERAL", "NOT_LITERAL", "RANGE"),
        lambda _given, _n, _ends: _ONE,
    ),
    "ASSERT": lambda given, n, _ends: _atomic(given[1], n),
    "ASSERT_NOT": lambda given, n, _ends: _atomic(given[1], n),
    "ATOMIC_GROUP": _atomic,
    "BRANCH": _branch,
    "GROUPREF": lambda _given, n, _ends: _Work(1, n),
    "GROUPREF_EXISTS": _conditional,
    "MAX_REPEAT": _repeat,
    "MIN_REPEAT": _repeat,
    "POSSESSIVE_REPEAT": lambda given, n, _ends: _Work(1, _repeat(given, n, False)[1]),
    "SUBPATTERN": _group,
}
