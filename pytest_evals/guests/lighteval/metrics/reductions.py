"""Reductions of the values of several references or answers to one value; and the base
class of metrics with normalizers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.guests.lighteval.metrics.normalizers import (
    Normalizer,
    normalized,
    resolve_normalizer,
)
from pytest_evals.scorers.custom_metrics.aggregation import mean
from pytest_evals.scorers.custom_metrics.metric import SampleLevelComputation

Reduction = Callable[[Any], float]
_NAMES: Mapping[str, Reduction] = {"max": max, "mean": mean, "min": min, "sum": sum}


def reduction(given: Reduction | str | None, default: str = "max") -> Reduction:
    """Return a reduction given as a function or by name."""
    if given is not None and not isinstance(given, str):
        return given
    name = given or default
    if name not in _NAMES:
        raise EvalsError(unknown_name("aggregation_function", name, list(_NAMES)))
    return _NAMES[name]


def reduce_answers(how: Reduction | str | None, values: Sequence[float]) -> float:
    """Reduce the values of the answers to one number; the mean by default.

    Raises:
        DocumentError: The list of values is empty.
    """
    if not values:
        raise DocumentError("the document has no answers")
    return reduction(how, "mean")(values)


def references(doc: Doc) -> list[str]:
    """Return the references of a document, at least one.

    Raises:
        DocumentError: References are missing, or not strings.
    """
    if not doc.choices:
        raise DocumentError("the document has no references: choices is empty")
    golds = doc.get_golds()
    if not golds:
        raise DocumentError("the document has no references: gold_index is empty")
    for gold in golds:
        if not isinstance(gold, str):
            raise DocumentError(f"a reference must be a string, not {gold!r:.80}")
    return golds


def check_count(name: str, value: Any) -> None:
    """Check that a number is a positive integer.

    Raises:
        EvalsError: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise EvalsError(f"{name} must be a positive integer, not {value!r}")


class NormalizedMetric(SampleLevelComputation):
    """Base class of metrics with ``normalize_gold`` and ``normalize_pred``."""

    normalize_gold: Normalizer | str | None
    normalize_pred: Normalizer | str | None

    def __post_init__(self) -> None:
        """Validate the names of normalizers."""
        resolve_normalizer(self.normalize_gold)
        resolve_normalizer(self.normalize_pred)

    def gold(self, text: str) -> str:
        """Normalize a reference, or the source of a summary."""
        return normalized(text, self.normalize_gold)

    def pred(self, text: str) -> str:
        """Normalize an answer."""
        return normalized(text, self.normalize_pred)
