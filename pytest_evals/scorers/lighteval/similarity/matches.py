"""Generated texts compared with the references: equality, and overlap of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError, did_you_mean
from pytest_evals.scorers.lighteval.reductions import (
    Reduction,
    reduce_values,
    reduction,
)
from pytest_evals.scorers.lighteval.references import references
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.similarity.normalization import NormalizedMetric
from pytest_evals.scorers.lighteval.text.normalizers import INVALID, Normalizer

__all__ = ["ExactMatches", "F1_score", "match_type", "matches"]

MatchType = Literal["full", "prefix", "suffix"]
_TYPES = ("full", "prefix", "suffix")


def match_type(given: str) -> str:
    """The type, if there is one of that name.

    Raises:
        EvalsError: There is none.
    """
    if given not in _TYPES:
        hint = did_you_mean(given, _TYPES) or f"; known: {', '.join(_TYPES)}"
        raise EvalsError(f"no type_exact_match called {given!r}{hint}")
    return given


def matches(gold: str, pred: str, kind: str) -> bool:
    """Whether a text is the reference, or begins or ends with it."""
    if kind == "prefix":
        return pred.startswith(gold)
    return pred.endswith(gold) if kind == "suffix" else pred == gold


@dataclass(frozen=True)
class _PairwiseMetric(NormalizedMetric):
    """What metrics of all pairs of reference and answer share.

    Args:
        aggregation_function: Over all pairs of reference and answer.
        normalize_gold: What the references go through, a function or its name.
        normalize_pred: What the answers go through.
        strip_strings: Whether white space at the ends is cut off first.
    """

    aggregation_function: Reduction | str = max
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    strip_strings: bool = False

    def __post_init__(self) -> None:
        """Look at what is given by name.

        Raises:
            EvalsError: There is nothing of that name.
        """
        self.look_up()
        reduction(self.aggregation_function)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """The best pair, or what ``aggregation_function`` makes of all."""
        golds, preds = references(doc), model_response.final_text
        values = [self.compute_one_item(gold, pred) for gold in golds for pred in preds]
        how = reduction(self.aggregation_function)
        return reduce_values(how, values, "answers")

    def compute_one_item(self, gold: str, pred: str) -> float:
        """The value of one pair."""
        raise NotImplementedError


@dataclass(frozen=True)
class ExactMatches(_PairwiseMetric):
    """1 where an answer is a reference.

    Args:
        type_exact_match: ``full``; ``prefix`` and ``suffix`` if the answer need only
            begin or end with the reference.
        published: Whether an answer without a final number matches a reference without
            one, as in lighteval (``gsm8k_normalizer``).
    """

    type_exact_match: str = "full"
    published: bool = False

    def __post_init__(self) -> None:
        """Look at what is given by name.

        Raises:
            EvalsError: There is nothing of that name.
        """
        match_type(self.type_exact_match)
        _PairwiseMetric.__post_init__(self)

    def compute_one_item(self, gold: str, pred: str) -> float:
        """1 if they match; an empty answer matches nothing, also no empty reference."""
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
    """Harmonic mean of precision and recall of the words, each counted once."""

    def compute_one_item(self, gold: str, pred: str) -> float:
        """F1 of two texts; 0 where either has no words."""
        right, said = set(self.gold(gold).split()), set(self.pred(pred).split())
        both = len(right & said)
        if not both:
            return 0.0
        precision, recall = both / len(said), both / len(right)
        return 2 * precision * recall / (precision + recall)
