"""How many steps a regular expression may need on a text, at worst.

Python's ``re`` tries one alternative after the other. A pattern with repetition inside
of repetition, such as ``(a+)+$``, has exponentially many on some texts; most patterns
have few on any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_LONGEST = 2**24
_LONGEST_PATTERN = 4096
"""Characters; looking at a longer one takes longer than asking another process."""


def longest_text(pattern: re.Pattern[str], most: float) -> int:
    """The length of text, as a power of 2, that a search is sure to do in about
    ``most`` steps; 0 for none, and for a pattern that is too long to be looked at, or
    that this version of Python has another form for."""
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
    """Of a part of a pattern, from one position of a text.

    Args:
        ways: In how many ways it matches, at most.
        steps: How many steps it takes to try all of them, at most.
    """

    ways: float
    steps: float


_ONE = _Work(1, 1)
_ENDLESS = _Work(float("inf"), float("inf"))


def _sequence(items: Any, n: int, ends: bool) -> _Work:
    """``ends`` says whether the pattern ends behind it: a repetition there takes what
    it finds, once, and no position is looked at again."""
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
    """Once it has matched, no other way is tried."""
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
