"""Extracts the letter or number of the selected choice from an answer.

Patterns and their priorities are lighteval's (0.13.0,
``metrics/utils/extractive_match_utils.py``): more explicit patterns come first; of
several matches of a pattern the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pytest_evals.errors import EvalsError
from pytest_evals.limits.patterns import BoundedPattern, compiled
from pytest_evals.scorers.lighteval.text.literals import Literals, literals_of

__all__ = ["IndicesExtractionConfig", "find_labels", "labels_of"]


@dataclass(frozen=True, slots=True)
class IndicesExtractionConfig:
    """The labels of choices.

    Args:
        prefix_for_extraction: ``Letters`` (A to Z), ``NativeLetters`` (those of the
            language) or ``Numbers``.
        try_extract_without_anchor: Also match labels without a phrase such as
            "Answer:".
    """

    prefix_for_extraction: str
    try_extract_without_anchor: bool = False


def labels_of(prefix: str, language: str) -> tuple[str, ...]:
    """Return the labels of choices, in order.

    Raises:
        EvalsError: The prefix is unknown.
    """
    if prefix == "Letters":
        return tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    if prefix == "NativeLetters":
        return literals_of(language).indices
    if prefix == "Numbers":
        return tuple(str(number) for number in range(1, 27))
    raise EvalsError(
        "prefix_for_extraction must be Letters, NativeLetters or Numbers, not "
        f"{prefix!r}"
    )


class _LabelPattern(NamedTuple):
    priority: int
    regex: BoundedPattern


class _LabelMatch(NamedTuple):
    """A matched label and its position."""

    priority: int
    end: int
    start: int
    label: str

    @property
    def rank(self) -> tuple[int, int, int]:
        """Return the sort key; the smallest wins."""
        return self.priority, -self.end, self.start


def find_labels(
    text: str, config: IndicesExtractionConfig, n_choices: int, language: str
) -> list[str]:
    """Return the labels in a text, best match first."""
    places = _patterns(
        labels_of(config.prefix_for_extraction, language)[:n_choices],
        config.try_extract_without_anchor,
        language,
    )
    found = sorted(_matches(text, places), key=lambda one: one.rank)
    return [one.label for one in found]


def _matches(text: str, places: Sequence[_LabelPattern]) -> Iterator[_LabelMatch]:
    for place in places:
        for start, end, (label,) in place.regex.matches(text):
            yield _LabelMatch(place.priority, end, start, label.strip("()"))


@lru_cache(maxsize=64)
def _patterns(
    labels: Sequence[str], without_anchor: bool, language: str
) -> tuple[_LabelPattern, ...]:
    """Return the patterns of a label with their priorities."""
    words = literals_of(language)
    one = "|".join(re.escape(form) for x in labels for form in (f"({x})", x))
    label = f"(?P<label>{one})"
    stops = "".join(map(re.escape, _stops(words)))
    space = re.escape(words.sentence_space) if words.sentence_space else ""
    before = rf"(?:^|{space})(?:\*\*)?"
    behind = rf"(?:\*\*)?(?:[{stops}]|{space or chr(92) + 's'}|$)"
    announced = f"{before}{label}{behind}"
    answer = f"(?i:{re.escape(words.answer)})"
    colon = f"[{re.escape(words.colon)}:]"
    listed = [
        (100, rf"{answer}{colon}.{{0,50}}?{announced}"),
        (150, rf"{answer}.{{0,50}}?{announced}"),
        (200, rf"\A(?:\*\*)?{label}{behind}"),
        (210, rf"\n\s*(?:\*\*)?{label}{behind}"),
    ]
    if language == "eng":
        listed += [
            (0, rf"(?i:final answer is)\:?\s*{label}\.?\s?(?i:I hope)"),
            (50, rf"(?i:final answer).{{0,100}}?\s+is\:?\s*(?:\*\*)?{label}"),
        ]
    if without_anchor:
        listed += [(250, announced), (300, label)]
    return tuple(_LabelPattern(n, compiled(pattern)) for n, pattern in listed)


def _stops(words: Literals) -> set[str]:
    return {words.full_stop, words.comma, words.colon, ".", ",", ":"}
