"""Patterns of values in answers: the position of a value, and how explicit it is.

Patterns and their priorities are lighteval's (0.13.0,
``metrics/utils/extractive_match_utils.py``): a lower number is tried first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from pytest_evals.guests.lighteval.metrics.text.literals import Literals, literals_of
from pytest_evals.limits.patterns import BoundedPattern, compiled

NEAR = ".{0,50}?"
"""Text between the word for "answer" and the answer."""


class Pattern(NamedTuple):
    """A pattern of a value and its priority."""

    priority: int
    regex: BoundedPattern


def patterns(given: Iterable[tuple[int, str]], flags: int = 0) -> tuple[Pattern, ...]:
    """Compile patterns, given with their priorities."""
    return tuple(Pattern(priority, compiled(text, flags)) for priority, text in given)


def after_answer(
    language: str, final: tuple[str, str], value: str, late: int
) -> list[tuple[int, str]]:
    """Return the patterns of a value after the word for "answer", if it is known.

    Args:
        final: Pattern of a value after "final answer is", and after "final answer …
            is"; these are used in English only.
        value: Pattern of the text after the word, with the value.
        late: Priority if no colon follows the word.
    """
    words, listed = literals_of(language), []
    if language == "eng":
        listed += [
            (0, rf"(?i:final answer is):?\s*{final[0]}\.?\s?I hope"),
            (50, rf"(?i:final answer.{{0,100}}?)\s+is:?{final[1]}"),
        ]
    if words.answer:
        word = f"(?i:{re.escape(words.answer)})"
        listed += [(100, rf"{word}\s?{_colon(words)}{value}"), (late, word + value)]
    return listed


def closing_marks(words: Literals) -> str:
    """Return the pattern of a mark after a value, the language's own or the ASCII one,
    without parentheses around its alternatives."""
    stops = re.escape(words.full_stop + words.comma)
    return rf"[{stops}.,]|\s?{_colon(words)}"


def _colon(words: Literals) -> str:
    return f"[{re.escape(words.colon)}:]"
