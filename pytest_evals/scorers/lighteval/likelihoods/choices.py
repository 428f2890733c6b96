"""Metrics of the log-probabilities of a document's choices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.lighteval.likelihoods.logprobs import (
    LogProbNormalization,
    LogProbPMINorm,
    choice_logprobs,
    document_logprobs,
    normalization,
)
from pytest_evals.scorers.lighteval.metric import SampleLevelComputation
from pytest_evals.scorers.lighteval.reductions import Reduction, reduction
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = [
    "MRR",
    "AccGoldLikelihood",
    "LoglikelihoodAcc",
    "NormalizedMultiChoiceProbability",
    "Probability",
    "Recall",
    "TruthfulqaMCMetrics",
    "best_choice",
    "gold_indices",
]


def gold_indices(doc: Doc) -> list[int]:
    """Positions of the right choices; one that is none of the choices stays, and is
    never equal to that of a choice."""
    gold = doc.gold_index
    return list(gold) if isinstance(gold, list | tuple) else [gold]


def _of_golds(doc: Doc, values: Sequence[float]) -> list[float]:
    """The values of the correct choices that are in range."""
    n = len(values)
    return [values[gold] for gold in gold_indices(doc) if -n <= gold < n]


def best_choice(logprobs: Sequence[float]) -> int:
    """The most likely choice, the first one of equals.

    Raises:
        DocumentError: There is none.
    """
    if not logprobs:
        raise DocumentError("there are no log-probabilities of choices")
    return max(range(len(logprobs)), key=logprobs.__getitem__)


@dataclass(frozen=True)
class LoglikelihoodAcc(SampleLevelComputation):
    """1 if the most likely choice is a right one.

    Args:
        logprob_normalization: How log-probabilities are made comparable: an object of
            :mod:`.logprobs` or its name, ``None`` for none.
    """

    logprob_normalization: LogProbNormalization | str | None = None
    _norm: LogProbNormalization | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up the normalisation."""
        found = normalization(self.logprob_normalization)
        object.__setattr__(self, "_norm", found)

    @property
    def needs_unconditioned(self) -> bool:
        """Whether choices are also scored without the question."""
        return isinstance(self._norm, LogProbPMINorm)

    def measure(self, doc: Doc, model_response: ModelResponse) -> int:
        """0 or 1."""
        best = best_choice(choice_logprobs(self._norm, doc, model_response))
        return int(best in gold_indices(doc))


@dataclass(frozen=True)
class NormalizedMultiChoiceProbability(SampleLevelComputation):
    """The right choice's share of the probability of all choices.

    Args:
        log_prob_normalization: As in :class:`LoglikelihoodAcc`.
        aggregation_function: Over several right choices.
    """

    log_prob_normalization: LogProbNormalization | str | None = None
    aggregation_function: Reduction | str = max
    _norm: LogProbNormalization | None = field(init=False, repr=False, compare=False)
    _reduce: Reduction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name."""
        found = normalization(self.log_prob_normalization)
        object.__setattr__(self, "_norm", found)
        object.__setattr__(self, "_reduce", reduction(self.aggregation_function))

    @property
    def needs_unconditioned(self) -> bool:
        """Whether choices are also scored without the question."""
        return isinstance(self._norm, LogProbPMINorm)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """From 0 to 1; 0 where all choices are impossible."""
        likely = [_exp(lp) for lp in choice_logprobs(self._norm, doc, model_response)]
        total = sum(likely)
        if not total:
            return 0.0
        shares = [value / total for value in _of_golds(doc, likely)]
        return float(self._reduce(shares)) if shares else 0.0


@dataclass(frozen=True)
class Probability(SampleLevelComputation):
    """The probability of the right choice.

    Args:
        normalization: As in :class:`LoglikelihoodAcc`.
        aggregation_function: Over several right choices.
        published: Whether all choices are looked at, as in lighteval, which is meant
            for documents with one.
    """

    normalization: LogProbNormalization | str | None = None
    aggregation_function: Reduction | str = max
    published: bool = False
    _norm: LogProbNormalization | None = field(init=False, repr=False, compare=False)
    _reduce: Reduction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name."""
        object.__setattr__(self, "_norm", normalization(self.normalization))
        object.__setattr__(self, "_reduce", reduction(self.aggregation_function))

    @property
    def needs_unconditioned(self) -> bool:
        """Whether choices are also scored without the question."""
        return isinstance(self._norm, LogProbPMINorm)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """From 0 to 1."""
        logprobs = choice_logprobs(self._norm, doc, model_response)
        counted = logprobs if self.published else _of_golds(doc, logprobs)
        likely = [_exp(logprob) for logprob in counted]
        return float(self._reduce(likely)) if likely else 0.0


def _exp(logprob: float) -> float:
    try:
        return math.exp(logprob)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Recall(SampleLevelComputation):
    """1 if a right choice is among the ``k`` most likely ones.

    Args:
        k: How many are looked at.
        published: Of equally likely choices the last ones are looked at where ``k`` is
            above 1, as in lighteval; else the first ones.
    """

    other_names: ClassVar[Mapping[str, str]] = {"recall_depth": "k"}
    """lighteval's name of the attribute, by which ``sample_params`` set it there."""
    k: int = 1
    published: bool = False

    def __post_init__(self) -> None:
        """Check the depth.

        Raises:
            EvalsError: It is no whole number from 1.
        """
        if not isinstance(self.k, int) or self.k < 1:
            raise EvalsError(f"k is a whole number from 1, not {self.k!r}")

    def measure(self, doc: Doc, model_response: ModelResponse) -> int:
        """0 or 1."""
        logprobs = document_logprobs(model_response)
        positions = list(range(len(logprobs)))
        if self.published and self.k > 1:
            positions.reverse()
        ranked = sorted(positions, key=lambda i: -logprobs[i])
        return int(any(gold in ranked[: self.k] for gold in gold_indices(doc)))


@dataclass(frozen=True)
class MRR(SampleLevelComputation):
    """One over the rank of the best right choice; equally likely ones share the best
    rank.

    Args:
        length_normalization: Whether nats are divided by the choice's characters.
    """

    length_normalization: bool = False

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """From 0 to 1."""
        logprobs = document_logprobs(model_response)
        if self.length_normalization:
            logprobs = choice_logprobs(normalization("char"), doc, model_response)
        ranks = [
            sum(other > logprob for other in logprobs)
            for logprob in _of_golds(doc, logprobs)
        ]
        return 1.0 / (1 + min(ranks)) if ranks else 0.0


@dataclass(frozen=True)
class AccGoldLikelihood(SampleLevelComputation):
    """1 if greedy decoding returns any of the requested continuations."""

    def measure(self, doc: Doc, model_response: ModelResponse) -> int:
        """0 or 1."""
        return int(any(model_response.argmax_logits_eq_gold))


@dataclass(frozen=True)
class TruthfulqaMCMetrics(SampleLevelComputation):
    """TruthfulQA's two multiple-choice numbers.

    The choices are those of the first question, whose first one is right, and then
    those of the second, whose correct ones come first; ``specific["len_mc1"]`` is where
    the second ones begin.
    """

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """By name."""
        start = (doc.specific or {}).get("len_mc1")
        golds = gold_indices(doc)
        if not isinstance(start, int) or len(golds) < 2:
            raise DocumentError(
                'TruthfulQA needs specific["len_mc1"] and right choices of both lists'
            )
        logprobs = document_logprobs(model_response)
        first, second = logprobs[:start], logprobs[start:]
        best = max(second, default=-math.inf)
        if best == -math.inf:
            raise DocumentError("TruthfulQA: no choice of the second list is possible")
        likely = [math.exp(logprob - best) for logprob in second]
        # Choices before the first correct one of the second list count as correct,
        # as in lighteval and in lm-eval of then: right ones come first there.
        n_true = max(_end_of_run(golds[1:]) - start, 0)
        return {
            "truthfulqa_mc1": best_choice(first) == 0,
            "truthfulqa_mc2": sum(likely[:n_true]) / sum(likely),
        }


def _end_of_run(indices: Sequence[int]) -> int:
    """The index behind those that follow each other without a gap."""
    end = indices[0] + 1
    for index in indices[1:]:
        if index != end:
            break
        end += 1
    return end
