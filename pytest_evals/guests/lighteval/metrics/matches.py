"""Metrics that compare an answer with references: exact match, F1 of words, edit
distances and DROP's metrics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, suggestion, unknown_name
from pytest_evals.guests.lighteval.metrics.normalizers import (
    INVALID,
    Normalizer,
    is_number,
    library,
    treebank_words,
    without_articles,
    without_punctuation,
)
from pytest_evals.guests.lighteval.metrics.reductions import (
    NormalizedMetric,
    Reduction,
    reduce_answers,
    reduction,
    references,
)
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

_TYPES: Mapping[str, Callable[[str, str], bool]] = {
    "full": eq,
    "prefix": str.startswith,
    "suffix": str.endswith,
}


def match_type(given: str) -> Callable[[str, str], bool]:
    """Return a comparison of an answer with a reference by its name.

    Raises:
        EvalsError: The name is unknown.
    """
    if given not in _TYPES:
        raise EvalsError(unknown_name("type_exact_match", given, list(_TYPES)))
    return _TYPES[given]


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
        NormalizedMetric.__post_init__(self)
        reduction(self.aggregation_function)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        golds, preds = references(doc), model_response.final_text
        values = [self.compute_one_item(gold, pred) for gold in golds for pred in preds]
        return reduce_answers(reduction(self.aggregation_function), values)

    def compute_one_item(self, gold: str, pred: str) -> float:
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
        return int(match_type(self.type_exact_match)(pred, gold))


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


def _prefix(gold: Sequence[str], pred: Sequence[str]) -> float:
    pairs = zip(gold, pred, strict=False)
    return float(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _edits(gold: Sequence[str], pred: Sequence[str]) -> float:
    levenshtein = library("rapidfuzz.distance", "StringDistance").Levenshtein
    return float(levenshtein.distance(gold, pred))


def _similarity(gold: Sequence[str], pred: Sequence[str]) -> float:
    if not gold or not pred:
        return 0.0
    return 1.0 - _edits(gold, pred) / max(len(gold), len(pred))


_DISTANCES: Mapping[
    str, tuple[Callable[[Sequence[str], Sequence[str]], float], Reduction]
] = {
    "longest_common_prefix_length": (_prefix, max),
    "edit_distance": (_edits, min),
    "edit_similarity": (_similarity, max),
}
"""Name → function of two lists of words, and reduction over several answers."""


@dataclass(frozen=True)
class StringDistance(SampleLevelComputation):
    """Distance of answers from the first reference, truncated to the answer's length.

    Args:
        metric_types: ``longest_common_prefix_length`` and ``edit_distance`` in words,
            ``edit_similarity`` between 0 and 1; one or several.
        strip_prediction: Strip whitespace of the answer.
    """

    libraries: ClassVar[Libraries] = (
        ("nltk", "nltk", "metrics"),
        ("rapidfuzz", "rapidfuzz", "metrics"),
    )

    metric_types: str | Sequence[str]
    strip_prediction: bool = True

    def __post_init__(self) -> None:
        """Validate the names."""
        for name in self._names:
            if name not in _DISTANCES:
                hint = suggestion(name, list(_DISTANCES))
                raise EvalsError(f"unknown string distance {name!r}{hint}")

    @property
    def _names(self) -> list[str]:
        given = self.metric_types
        return [given] if isinstance(given, str) else list(given)

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute the distances by name."""
        gold, preds = references(doc)[0], model_response.final_text
        if self.strip_prediction:
            preds = [pred.strip() for pred in preds]
        pairs = [
            (treebank_words(gold[: len(pred)]), treebank_words(pred)) for pred in preds
        ]
        return {
            name: reduce_answers(how, [distance(*pair) for pair in pairs])
            for name in self._names
            for distance, how in [_DISTANCES[name]]
        }


_COLUMN = "golds_no_preprocessing"


@dataclass(frozen=True)
class DropMetrics(SampleLevelComputation):
    """``em`` and ``f1`` of the best reference.

    References are in ``doc.specific["golds_no_preprocessing"]``, each a string or a
    list of spans. Each answer of the model is a span.

    Args:
        published: Keep reasoning in answers, as lighteval does.
    """

    is_share: ClassVar[bool] = True
    libraries: ClassVar[Libraries] = (("scipy", "scipy", "metrics"),)

    published: bool = False

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute both numbers, with F1 rounded to two decimals."""
        golds = (doc.specific or {}).get(_COLUMN)
        if not isinstance(golds, list | tuple) or not golds:
            raise DocumentError(
                f"column {_COLUMN!r} (or doc.specific) must be a list of references"
            )
        texts = model_response.text if self.published else model_response.final_text
        preds = list(map(_normalized, texts))
        best_em = best_f1 = 0.0
        for gold in golds:
            spans = [gold] if isinstance(gold, str) else list(gold)
            if not spans or not str(spans[0]).strip():
                continue
            spans = list(map(_normalized, spans))
            best_em = max(best_em, float(set(spans) == set(preds)))
            best_f1 = max(best_f1, _f1(spans, preds))
        return {"em": best_em, "f1": best_f1}


def _normalized(text: str) -> str:
    tokens = (_token(token) for token in re.split(" |-", text))
    return " ".join(token for token in tokens if token).strip()


def _token(token: str) -> str:
    token = token.lower()
    if not is_number(token):
        token = without_punctuation(token)
    if is_number(token):
        token = str(float(token))
    return without_articles(token)


def _f1(golds: Sequence[str], preds: Sequence[str]) -> float:
    """Return the mean F1 of the optimal pairing of spans; unpaired ones count as 0."""
    assignment = library("scipy.optimize", "DROP's F1").linear_sum_assignment
    if not preds:
        return 0.0
    table = [[_pair(set(g.split()), set(p.split())) for p in preds] for g in golds]
    rows, columns = assignment(table, maximize=True)
    total = sum(table[i][j] for i, j in zip(rows, columns, strict=True))
    return round(float(total) / max(len(golds), len(preds)), 2)


def _pair(gold: set[str], pred: set[str]) -> float:
    """Return the F1 of two sets of words; 0 if the reference contains numbers and the
    answer none of them."""
    numbers = {token for token in gold if is_number(token)}
    if numbers and not numbers & pred:
        return 0.0
    both = len(gold & pred)
    precision = both / len(pred) if pred else 1.0
    recall = both / len(gold) if gold else 1.0
    if not precision + recall:
        return 0.0
    return 2 * precision * recall / (precision + recall)
