"""Metrics of the log-probabilities of choices, and their normalizations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from operator import eq
from typing import ClassVar, TypeVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.guests.lighteval.metrics.reductions import (
    Reduction,
    check_count,
    reduction,
)
from pytest_evals.scorers.custom_metrics.metric import SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse


@dataclass(frozen=True, slots=True)
class LogProbCharNorm:
    """Log-probability per character (code point).

    Args:
        name: Suffix of metric names.
        ignore_first_space: Do not count a leading space.
    """

    name: str = "norm"
    ignore_first_space: bool = False


@dataclass(frozen=True, slots=True)
class LogProbTokenNorm:
    """Log-probability per token."""

    name: str = "norm_token"


@dataclass(frozen=True, slots=True)
class LogProbPMINorm:
    """Pointwise mutual information with the question."""

    name: str = "norm_pmi"


LogProbNormalization = LogProbCharNorm | LogProbTokenNorm | LogProbPMINorm

T = TypeVar("T")

_NAMES: Mapping[str, LogProbNormalization | None] = {
    "none": None,
    "char": LogProbCharNorm(),
    "char_ignore_first_space": LogProbCharNorm(ignore_first_space=True),
    "token": LogProbTokenNorm(),
    "pmi": LogProbPMINorm(),
}


def normalization(
    given: LogProbNormalization | str | None,
) -> LogProbNormalization | None:
    """Return a normalization given as an object or by its name in task files."""
    if not isinstance(given, str):
        return given
    if given not in _NAMES:
        raise EvalsError(unknown_name("log-probability normalization", given, _NAMES))
    return _NAMES[given]


def document_logprobs(response: ModelResponse) -> list[float]:
    """Return the log-probabilities of a document.

    Raises:
        DocumentError: They are missing.
    """
    if not len(response.logprobs):  # a task module may set an array
        raise DocumentError("the response has no log-probabilities")
    return list(response.logprobs)


def choice_logprobs(
    given: LogProbNormalization | None, doc: Doc, response: ModelResponse
) -> list[float]:
    """Return the normalized log-probabilities of a document's choices.

    Unconditional log-probabilities may also be appended to the others, as in lighteval.

    Raises:
        DocumentError: Log-probabilities, tokens or choices are missing.
    """
    n, logprobs = len(doc.choices), document_logprobs(response)
    alone = response.unconditioned_logprobs
    if alone is None and len(logprobs) == 2 * n:
        alone = logprobs[n:]
    tokens = response.output_tokens[:n]
    return normalize_log_probs(given, logprobs[:n], alone, doc.choices, tokens)


def normalize_log_probs(
    normalization: LogProbNormalization | None,
    choices_logprob: Sequence[float],
    unconditioned_logprob: Sequence[float] | None,
    choices_text: Sequence[str] | None,
    choices_tokens: Sequence[Sequence[int]] | None,
) -> list[float]:
    """Return normalized log-probabilities.

    Args:
        unconditioned_logprob: Log-probability of each choice without the question.
        choices_tokens: Their tokens; only their number is used.

    Raises:
        DocumentError: A required argument is missing, has a different length than the
            choices, or contains an empty choice.
    """
    if normalization is None:
        return list(choices_logprob)
    if isinstance(normalization, LogProbPMINorm):
        alone = _checked(
            unconditioned_logprob, choices_logprob, "unconditional log-probability"
        )
        return [lp - other for lp, other in zip(choices_logprob, alone, strict=True)]
    if isinstance(normalization, LogProbTokenNorm):
        tokens = _checked(choices_tokens, choices_logprob, "list of tokens")
        lengths = [len(each) for each in tokens]
    else:
        texts = _checked(choices_text, choices_logprob, "text")
        skipped = " " if normalization.ignore_first_space else ""
        lengths = [len(text.removeprefix(skipped)) for text in texts]
    if not all(lengths):
        raise DocumentError(
            f"choice {lengths.index(0)} is empty; its log-probability cannot be "
            "normalized by length"
        )
    return [lp / size for lp, size in zip(choices_logprob, lengths, strict=True)]


def _checked(
    given: Sequence[T] | None, logprobs: Sequence[float], noun: str
) -> Sequence[T]:
    if given is None or len(given) != len(logprobs):
        n = 0 if given is None else len(given)
        raise DocumentError(
            f"the normalization needs one {noun} for each of {len(logprobs)} choices, "
            f"got {n}"
        )
    return given


def gold_indices(doc: Doc) -> list[int]:
    """Return the positions of the correct choices; they may be out of range."""
    gold = doc.gold_index
    return list(gold) if isinstance(gold, list | tuple) else [gold]


def _of_golds(doc: Doc, values: Sequence[float]) -> list[float]:
    n = len(values)
    return [values[gold] for gold in gold_indices(doc) if -n <= gold < n]


def best_choice(logprobs: Sequence[float]) -> int:
    """Return the position of the most likely choice; ties go to the first.

    Raises:
        DocumentError: The list is empty.
    """
    if not logprobs:
        raise DocumentError("the response has no log-probabilities of choices")
    return max(range(len(logprobs)), key=logprobs.__getitem__)


class _NormalizedChoices(SampleLevelComputation):
    """Base class of metrics with a normalization of log-probabilities, whose argument
    has another name in each, and a reduction over several correct choices."""

    aggregation_function: Reduction | str = max

    def __post_init__(self) -> None:
        """Validate names."""
        self._resolved()
        reduction(self.aggregation_function)

    def _resolved(self) -> LogProbNormalization | None:
        names = ("normalization", "log_prob_normalization", "logprob_normalization")
        return normalization(next(getattr(self, n) for n in names if hasattr(self, n)))

    @property
    def needs_unconditioned(self) -> bool:
        return isinstance(self._resolved(), LogProbPMINorm)

    def _logprobs(self, doc: Doc, response: ModelResponse) -> list[float]:
        return choice_logprobs(self._resolved(), doc, response)

    def _reduced(self, values: Sequence[float]) -> float:
        """Reduce the values of the correct choices to one; 0 without any."""
        return float(reduction(self.aggregation_function)(values)) if values else 0.0


@dataclass(frozen=True)
class LoglikelihoodAcc(_NormalizedChoices):
    """1 if the most likely choice is correct.

    Args:
        logprob_normalization: Normalization of log-probabilities, or its name.
    """

    is_share: ClassVar[bool] = True
    logprob_normalization: LogProbNormalization | str | None = None

    def measure(self, doc: Doc, model_response: ModelResponse) -> int:
        """Return 0 or 1."""
        best = best_choice(self._logprobs(doc, model_response))
        return int(best in gold_indices(doc))


@dataclass(frozen=True)
class NormalizedMultiChoiceProbability(_NormalizedChoices):
    """Probability of the correct choice, normalized over all choices."""

    log_prob_normalization: LogProbNormalization | str | None = None
    aggregation_function: Reduction | str = max

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the probability; 0 if all choices have probability 0."""
        likely = [_exp(lp) for lp in self._logprobs(doc, model_response)]
        total = sum(likely)
        if not total:
            return 0.0
        return self._reduced([value / total for value in _of_golds(doc, likely)])


@dataclass(frozen=True)
class Probability(_NormalizedChoices):
    """Probability of the correct choice.

    Args:
        published: Use all choices instead of the correct ones, as lighteval does.
    """

    normalization: LogProbNormalization | str | None = None
    aggregation_function: Reduction | str = max
    published: bool = False

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the probability."""
        logprobs = self._logprobs(doc, model_response)
        counted = logprobs if self.published else _of_golds(doc, logprobs)
        return self._reduced([_exp(logprob) for logprob in counted])


def _exp(logprob: float) -> float:
    try:
        return math.exp(logprob)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Recall(SampleLevelComputation):
    """Recall@k: 1 if a correct choice is among the ``k`` most likely ones.

    Args:
        published: With ``k`` above 1, ties go to the last choices, as in lighteval,
            instead of the first ones.
    """

    is_share: ClassVar[bool] = True
    other_names: ClassVar[Mapping[str, str]] = {"recall_depth": "k"}
    """lighteval's name of the argument in ``sample_params``."""
    k: int = 1
    published: bool = False

    def __post_init__(self) -> None:
        """Validate ``k``."""
        check_count("k", self.k)

    def measure(self, doc: Doc, model_response: ModelResponse) -> int:
        """Return 0 or 1."""
        logprobs = document_logprobs(model_response)
        positions = list(range(len(logprobs)))
        if self.published and self.k > 1:
            positions.reverse()
        ranked = sorted(positions, key=lambda i: -logprobs[i])
        return int(any(gold in ranked[: self.k] for gold in gold_indices(doc)))


@dataclass(frozen=True)
class MRR(SampleLevelComputation):
    """Reciprocal rank of the best correct choice; ties share the best rank.

    Args:
        length_normalization: Divide log-probabilities by characters.
    """

    is_share: ClassVar[bool] = True
    length_normalization: bool = False

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the reciprocal rank."""
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
    """1 if greedy decoding generates any of the choices."""

    is_share: ClassVar[bool] = True

    def measure(self, doc: Doc, model_response: ModelResponse) -> int:
        """Return 0 or 1."""
        return int(any(model_response.argmax_logits_eq_gold))


@dataclass(frozen=True)
class TruthfulqaMCMetrics(SampleLevelComputation):
    """TruthfulQA's MC1 and MC2.

    The choices are those of MC1, the first of which is correct, followed by those of
    MC2, which starts with the correct ones. ``specific["len_mc1"]`` is the number of
    MC1's choices.
    """

    is_share: ClassVar[bool] = True

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute both numbers by name."""
        start = (doc.specific or {}).get("len_mc1")
        golds = gold_indices(doc)
        if not isinstance(start, int) or len(golds) < 2:
            raise DocumentError(
                'TruthfulQA needs specific["len_mc1"] and correct choices of both parts'
            )
        logprobs = document_logprobs(model_response)
        first, second = logprobs[:start], logprobs[start:]
        best = max(second, default=-math.inf)
        if best == -math.inf:
            raise DocumentError("TruthfulQA: all choices of MC2 have probability 0")
        likely = [math.exp(logprob - best) for logprob in second]
        # Choices of MC2 before its first correct one count as correct, as in
        # lighteval and earlier releases of lm-eval.
        run = takewhile(lambda pair: eq(*pair), zip(golds[1:], count(golds[1])))
        n_true = max(golds[1] + sum(1 for _ in run) - start, 0)
        return {
            "truthfulqa_mc1": best_choice(first) == 0,
            "truthfulqa_mc2": sum(likely[:n_true]) / sum(likely),
        }
