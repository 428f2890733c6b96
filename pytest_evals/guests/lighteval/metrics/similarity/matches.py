"""Exact match and word-level F1 of generated texts and references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError, unknown_name
from pytest_evals.guests.lighteval.metrics.reductions import (
    Reduction,
    reduce_values,
    reduction,
    references,
)
from pytest_evals.guests.lighteval.metrics.similarity.normalization import (
    NormalizedMetric,
)
from pytest_evals.guests.lighteval.metrics.text.normalizers import INVALID, Normalizer
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["ExactMatches", "F1_score", "match_type", "matches"]

MatchType = Literal["full", "prefix", "suffix"]
_TYPES = ("full", "prefix", "suffix")


def match_type(given: str) -> str:
    """Validate the type of an exact match.

    Raises:
        EvalsError: The type is unknown.
    """
    if given not in _TYPES:
        raise EvalsError(unknown_name("type_exact_match", given, _TYPES))
    return given


def matches(gold: str, pred: str, kind: str) -> bool:
    """Return whether a text equals the reference, or starts or ends with it."""
    if kind == "prefix":
        return pred.startswith(gold)
    return pred.endswith(gold) if kind == "suffix" else pred == gold


@dataclass(frozen=True)
class _PairwiseMetric(NormalizedMetric):
    """Base class of metrics over all pairs of reference and answer.

    Args:
        aggregation_function: Reduction over all pairs.
        normalize_gold: Normalizer of references, or its name.
        normalize_pred: Normalizer of answers, or its name.
        strip_strings: Strip whitespace first.
    """

    aggregation_function: Reduction | str = max
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    strip_strings: bool = False

    def __post_init__(self) -> None:
        """Validate names."""
        self.check_names()
        reduction(self.aggregation_function)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Score all pairs, and reduce them."""
        golds, preds = references(doc), model_response.final_text
        values = [self.compute_one_item(gold, pred) for gold in golds for pred in preds]
        how = reduction(self.aggregation_function)
        return reduce_values(how, values, "answers")

    def compute_one_item(self, gold: str, pred: str) -> float:
        """Score one pair."""
        raise NotImplementedError


@dataclass(frozen=True)
class ExactMatches(_PairwiseMetric):
    """1 if an answer equals a reference.

    Args:
        type_exact_match: ``full``; with ``prefix`` or ``suffix`` the answer must only
            start or end with the reference.
        published: With ``gsm8k_normalizer``, an answer without a final number matches a
            reference without one, as in lighteval.
    """

    is_share: ClassVar[bool] = True
    type_exact_match: str = "full"
    published: bool = False

    def __post_init__(self) -> None:
        """Validate names."""
        match_type(self.type_exact_match)
        _PairwiseMetric.__post_init__(self)

    def compute_one_item(self, gold: str, pred: str) -> float:
        """Return 1 if they match; an empty answer never matches."""
        if not pred:
            return 0
        if self.strip_strings:
            gold, pred = gold.strip(), pred.strip()
        gold, pred = self.gold(gold), self.pred(pred)
        if pred == INVALID and self.normalize_pred and not self.published:
            return 0
        return int(matches(gold, pred, self.type_exact_match))


@dataclass(frozen=True)
class F1_score(_PairwiseMetric):
    """F1 of the sets of words."""

    is_share: ClassVar[bool] = True

    def compute_one_item(self, gold: str, pred: str) -> float:
        """Return the F1 of two texts; 0 if either has no words."""
        expected, words = set(self.gold(gold).split()), set(self.pred(pred).split())
        both = len(expected & words)
        if not both:
            return 0.0
        precision, recall = both / len(words), both / len(expected)
        return 2 * precision * recall / (precision + recall)
