"""Generated texts compared with the references: equality, and overlap of words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError, did_you_mean
from pytest_evals.scorers.lighteval.averaging import Reduction, reduced, reduction
from pytest_evals.scorers.lighteval.metric import SampleLevelComputation
from pytest_evals.scorers.lighteval.normalizers import INVALID, Normalizer, resolved
from pytest_evals.scorers.lighteval.response import ModelResponse

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


def _set_up(computation: Any) -> None:
    """Look up what is given by name, once."""
    made = {
        "_gold": resolved(computation.normalize_gold),
        "_pred": resolved(computation.normalize_pred),
        "_reduce": reduction(computation.aggregation_function),
    }
    for name, value in made.items():
        object.__setattr__(computation, name, value)


def _compared(
    computation: Any,
    one: Callable[[str, str], float],
    doc: Doc,
    response: ModelResponse,
) -> float:
    golds, preds = doc.get_golds(), response.final_text
    values = [one(gold, pred) for gold in golds for pred in preds]
    return reduced(computation._reduce, values, "references and answers")


@dataclass(frozen=True)
class ExactMatches(SampleLevelComputation):
    """1 where an answer is a reference.

    Args:
        aggregation_function: Over all pairs of reference and answer.
        normalize_gold: What the references go through, a function or its name.
        normalize_pred: What the answers go through.
        strip_strings: Whether white space at the ends is cut off first.
        type_exact_match: ``full``; ``prefix`` and ``suffix`` if the answer need only
            begin or end with the reference.
        published: Whether an answer without a final number matches a reference without
            one, as in lighteval (``gsm8k_normalizer``).
    """

    aggregation_function: Reduction | str = max
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    strip_strings: bool = False
    type_exact_match: str = "full"
    published: bool = False
    _gold: Normalizer | None = field(init=False, repr=False, compare=False)
    _pred: Normalizer | None = field(init=False, repr=False, compare=False)
    _reduce: Reduction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name.

        Raises:
            EvalsError: There is nothing of that name.
        """
        match_type(self.type_exact_match)
        _set_up(self)

    def compute(self, doc: Doc, model_response: ModelResponse, **more: Any) -> float:
        """The best pair, or what ``aggregation_function`` makes of all."""
        return _compared(self, self.compute_one_item, doc, model_response)

    def compute_one_item(self, gold: str, pred: str) -> float:
        """1 if they match; an empty answer matches nothing, also no empty reference."""
        if not pred:
            return 0
        if self.strip_strings:
            gold, pred = gold.strip(), pred.strip()
        gold = self._gold(gold) if self._gold else gold
        pred = self._pred(pred) if self._pred else pred
        if pred == INVALID and self._pred and not self.published:
            return 0
        return int(matches(gold, pred, self.type_exact_match))


@dataclass(frozen=True)
class F1_score(SampleLevelComputation):
    """Harmonic mean of precision and recall of the words, each counted once.

    Arguments as of :class:`ExactMatches`.
    """

    aggregation_function: Reduction | str = max
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    strip_strings: bool = False
    _gold: Normalizer | None = field(init=False, repr=False, compare=False)
    _pred: Normalizer | None = field(init=False, repr=False, compare=False)
    _reduce: Reduction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name.

        Raises:
            EvalsError: There is nothing of that name.
        """
        _set_up(self)

    def compute(self, doc: Doc, model_response: ModelResponse, **more: Any) -> float:
        """The best pair, or what ``aggregation_function`` makes of all."""
        return _compared(self, self.compute_one_item, doc, model_response)

    def compute_one_item(self, gold: str, pred: str) -> float:
        """F1 of two texts; 0 where either has no words."""
        right = set((self._gold(gold) if self._gold else gold).split())
        said = set((self._pred(pred) if self._pred else pred).split())
        both = len(right & said)
        if not both:
            return 0.0
        precision, recall = both / len(said), both / len(right)
        return 2 * precision * recall / (precision + recall)
