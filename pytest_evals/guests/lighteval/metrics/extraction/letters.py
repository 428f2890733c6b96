"""Labels of choices in answers: letters or numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.metrics.extraction.anchors import (
    NEAR,
    Pattern,
    after_answer,
    closing_marks,
    patterns,
)
from pytest_evals.guests.lighteval.metrics.text.literals import literals_of

__all__ = ["IndicesExtractionConfig", "label_patterns", "labels_of"]


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


@lru_cache(maxsize=64)
def label_patterns(
    config: IndicesExtractionConfig, n_choices: int, language: str
) -> tuple[Pattern, ...]:
    """Return the patterns of the labels of ``n_choices`` choices; the only group is the
    label, possibly in parentheses."""
    words = literals_of(language)
    labels = labels_of(config.prefix_for_extraction, language)[:n_choices]
    forms = (re.escape(form) for x in labels for form in (f"({x})", x))
    label = f"({'|'.join(forms)})"
    space = re.escape(words.sentence_space)
    closed = rf"{label}(?:\*\*)?(?:{closing_marks(words)}|{space}|$)"
    announced = rf"(?:^|{space})(?:\*\*)?{closed}"
    listed = after_answer(
        language, (label, rf"\s*{label}"), f"{NEAR}{announced}", late=150
    )
    listed += [(200, rf"^(?:\*\*)?{closed}"), (210, rf"\n(?:\*\*)?{closed}")]
    if config.try_extract_without_anchor:
        listed += [(250, announced), (300, label)]
    return patterns(listed)
