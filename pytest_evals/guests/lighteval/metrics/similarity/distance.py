"""Memorization metrics: longest common prefix and edit distance (Lee et al. 2021, arXiv
2107.06499)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError, MissingExtraError, suggestion
from pytest_evals.guests.lighteval.metrics.reductions import (
    Reduction,
    reduce_values,
    references,
)
from pytest_evals.guests.lighteval.metrics.text.words import treebank_words
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["StringDistance"]


def _prefix(gold: Sequence[str], pred: Sequence[str]) -> float:
    pairs = zip(gold, pred, strict=False)
    return float(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _edits(gold: Sequence[str], pred: Sequence[str]) -> float:
    try:
        from rapidfuzz.distance import Levenshtein
    except ModuleNotFoundError as error:
        raise MissingExtraError("StringDistance", "rapidfuzz", "metrics") from error
    return float(Levenshtein.distance(gold, pred))


def _similarity(gold: Sequence[str], pred: Sequence[str]) -> float:
    if not gold or not pred:
        return 0.0
    return 1.0 - _edits(gold, pred) / max(len(gold), len(pred))


_TYPES: Mapping[
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
            if name not in _TYPES:
                hint = suggestion(name, list(_TYPES))
                raise EvalsError(f"unknown string distance {name!r}{hint}")

    @property
    def _names(self) -> list[str]:
        given = self.metric_types
        return [given] if isinstance(given, str) else list(given)

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute the distances by name.

        Raises:
            MissingExtraError: NLTK or RapidFuzz is not installed.
        """
        gold = references(doc)[0]
        pairs = [self._words(gold, pred) for pred in model_response.final_text]
        return {
            name: reduce_values(
                _TYPES[name][1], [_TYPES[name][0](*pair) for pair in pairs], "answers"
            )
            for name in self._names
        }

    def _words(self, gold: str, pred: str) -> tuple[list[str], list[str]]:
        pred = pred.strip() if self.strip_prediction else pred
        return treebank_words(gold[: len(pred)]), treebank_words(pred)
