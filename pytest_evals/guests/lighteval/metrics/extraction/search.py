"""Extraction of the first value of an answer, by lighteval's functions (0.13.0,
``metrics/utils/extractive_match_utils.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.guests.lighteval.metrics.extraction.anchors import Pattern
from pytest_evals.guests.lighteval.metrics.extraction.formulas import (
    ExprExtractionConfig,
    LatexExtractionConfig,
    formula_patterns,
)
from pytest_evals.guests.lighteval.metrics.extraction.letters import (
    IndicesExtractionConfig,
    label_patterns,
)
from pytest_evals.guests.lighteval.metrics.extraction.values import (
    latex_value,
    number_value,
)
from pytest_evals.guests.lighteval.metrics.text.languages import code_of

__all__ = [
    "Fallback",
    "Mode",
    "Target",
    "extract_target_from_pred",
    "get_extraction_regexes",
]

Target = ExprExtractionConfig | LatexExtractionConfig | IndicesExtractionConfig
"""Type of value to extract."""
_ORDER = (IndicesExtractionConfig, LatexExtractionConfig, ExprExtractionConfig)
"""Order of matches with the same priority and position."""
Fallback = Literal["no_fallback", "first_match"]
Mode = Literal["first_match", "any_match"]


class TargetPattern(NamedTuple):
    """A pattern of a value to extract."""

    pattern: Pattern
    target: Target

    @property
    def priority(self) -> int:
        """Return the priority of the pattern."""
        return self.pattern.priority


class _Match(NamedTuple):
    minus_end: int
    start: int
    groups: Sequence[str | None]
    target: Target


def get_extraction_regexes(
    formatted_doc: Doc, target_types: Sequence[Target], language: Any
) -> list[TargetPattern]:
    """Return the patterns of values, sorted by priority."""
    code, n_choices = code_of(language), len(formatted_doc.choices)
    listed = [
        TargetPattern(pattern, target)
        for target in sorted(target_types, key=lambda one: _ORDER.index(type(one)))
        for pattern in (
            label_patterns(target, n_choices, code)
            if isinstance(target, IndicesExtractionConfig)
            else formula_patterns(target, code)
        )
    ]
    return sorted(listed, key=lambda one: one.priority)


def extract_target_from_pred(
    pred: str,
    target_res: Sequence[TargetPattern],
    fallback_mode: Fallback = "no_fallback",
    extraction_mode: Mode = "any_match",
    timeout_seconds: int = 5,
) -> list[Any]:
    """Return the extracted value and its source; empty without a match.

    Args:
        pred: The text.
        target_res: From :func:`get_extraction_regexes`.
        fallback_mode: ``first_match`` keeps the first match as a string.
        extraction_mode: ``any_match`` tries the matches after one that cannot be
            parsed.
        timeout_seconds: Time limit for parsing one value; ignored outside of the main
            thread.
    """
    sources: list[str] = []
    values: list[Any] = []
    for _, patterns in groupby(target_res, key=lambda one: one.priority):
        matches = [
            _Match(-end, start, groups, target)
            for pattern, target in patterns
            for start, end, groups in pattern.regex.matches(pred)
        ]
        # Of several, the one that ends last comes first.
        for match in sorted(matches, key=lambda one: one[:2]):
            value, source = _value(match, timeout_seconds)
            sources += [source] if source else []
            values += [] if value is None else [value]
            if values or extraction_mode == "first_match":
                break
        if values or (matches and extraction_mode == "first_match"):
            break
    return values + (sources[:1] if fallback_mode == "first_match" else [])


def _value(match: _Match, timeout_s: int) -> tuple[Any, str]:
    if isinstance(match.target, IndicesExtractionConfig):
        label = (match.groups[0] or "").strip("()")
        return label, label
    if isinstance(match.target, LatexExtractionConfig):
        return latex_value(match.groups, match.target, timeout_s)
    return number_value(match.groups, timeout_s)
