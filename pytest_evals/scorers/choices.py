"""Metrics of log-probabilities: of each choice, of a continuation, or of a full text.

Formulas as in lm-eval 0.4.13 (``ConfigurableTask.process_results``); the first of equal
maxima is selected. Works on one document at a time in plain Python, because there are
few choices and many documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.metric_value import MetricValue

NO_CHOICE = -100
"""The gold index of a correct answer that is not a choice (lm-eval's value)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceScores:
    """A document's choices and their log-probabilities."""

    choices: tuple[str, ...]
    gold: int | list[int]
    """Index of the correct choice; a list in tasks with several correct choices.
    ``NO_CHOICE`` if the correct answer is not a choice."""
    logprobs: tuple[float, ...]  # log-probability of each choice in nats
    greedy: tuple[bool, ...]
    """Whether greedy decoding returns the choice, for each choice."""
    unconditional: tuple[float, ...] = ()
    """Log-probability of each choice without the question; empty if not requested."""

    @property
    def golds(self) -> list[int]:
        """Indices of the correct choices."""
        return self.gold if isinstance(self.gold, list) else [self.gold]

    def is_gold(self, index: int) -> bool:
        """Whether the choice at an index is correct."""
        return index in self.golds

    def best(self) -> int:
        """Index of the most likely choice."""
        return _argmax(self.logprobs)

    def is_tied(self, values: Sequence[float]) -> bool:
        """Whether choices with different texts share the highest value."""
        best = values[_argmax(values)]
        tied = [n for n, value in enumerate(values) if value == best]
        return len(tied) > 1 and len({self.choices[n] for n in tied}) > 1

    def score_of(self, metric: str, values: Sequence[float]) -> MetricValue:
        """The 0/1 score of the choice with the highest value."""
        best, tied = _argmax(values), self.is_tied(values)
        correct = float(self.is_gold(best))
        return MetricValue(metric, correct, self.choices[best], is_tied=tied)


_Measure = Callable[[ChoiceScores], MetricValue]


def choice_scores(doc: Doc, results: Sequence[Any]) -> ChoiceScores:
    """Validate the results of a document. ``results``: ``(log-probability, greedy)``
    pairs, one for each choice, optionally followed by those without the question.
    Raises DocumentError if the number of results does not match the choices."""
    choices = tuple(doc.choices)
    pairs = [check_pair(result) for result in results]
    n = len(choices)
    if n == 0 or len(pairs) not in (n, 2 * n):
        raise DocumentError(f"{n} choices, but {len(pairs)} results")
    return ChoiceScores(
        choices=choices,
        gold=_gold(doc.gold_index, n),
        logprobs=tuple(logprob for logprob, _ in pairs[:n]),
        greedy=tuple(greedy for _, greedy in pairs[:n]),
        unconditional=tuple(logprob for logprob, _ in pairs[n:]),
    )


def check_pair(result: Any) -> tuple[float, bool]:
    """The result as log-probability and greedy flag. Raises DocumentError if it is not
    such a pair, or the log-probability is NaN."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise DocumentError(
            f"a (log-probability, greedy) pair was expected, got {result!r}; "
            "the filter pipeline must return one for each request"
        )
    logprob, greedy = result
    if not isinstance(logprob, (int, float)) or math.isnan(logprob):
        raise DocumentError(f"a log-probability was expected, got {logprob!r}")
    return float(logprob), bool(greedy)


def measure_choices(
    doc: Doc, results: Sequence[Any], metrics: Collection[str]
) -> list[MetricValue]:
    """Values of the metrics for a document, in the given order. Raises DocumentError if
    the results do not match the choices or the metric."""
    one = choice_scores(doc, results)
    values = [CHOICE_METRICS[name](one) for name in metrics]
    if all(gold >= 0 for gold in one.golds):
        return values
    reason = f"the correct answer {doc.gold_index!r} is not among the choices"
    return [value._replace(explanation=reason) for value in values]


def _gold(gold: int | Sequence[int], n_choices: int) -> int | list[int]:
    # Negative indices are kept: they are never equal to a choice's index, but
    # exact_match counts them from the end, as lm-eval does.
    if isinstance(gold, (list, tuple)):
        return [index if index < n_choices else NO_CHOICE for index in gold]
    assert isinstance(gold, int)
    return gold if gold < n_choices else NO_CHOICE


def _argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _per(logprob: float, length: int) -> float:
    """Nats per unit of length. For length 0 the value is -inf, or inf if the
    log-probability is 0: NumPy's 0/0 is NaN, which its argmax selects."""
    if length:
        return logprob / length
    return math.inf if logprob == 0 else -math.inf


def _normalized(metric: str, length: Callable[[str], int]) -> _Measure:
    def measure(one: ChoiceScores) -> MetricValue:
        per = map(_per, one.logprobs, map(length, one.choices))
        return one.score_of(metric, list(per))

    return measure


def _acc_mutual_info(one: ChoiceScores) -> MetricValue:
    if not one.unconditional:
        raise DocumentError(
            "acc_mutual_info needs the log-probability of each choice without the "
            "question"
        )
    if (n := len(one.golds)) != 1:
        raise DocumentError(f"acc_mutual_info is not defined for {n} correct choices")
    gains = [*map(sub, one.logprobs, one.unconditional)]
    return one.score_of("acc_mutual_info", gains)


def _exact_match(one: ChoiceScores) -> MetricValue:
    n = len(one.choices)
    hit = any(one.greedy[gold] for gold in one.golds if gold >= -n)
    answer = next((c for c, g in zip(one.choices, one.greedy, strict=True) if g), "")
    return MetricValue("exact_match", int(hit), answer)


def _labels(metric: str) -> _Measure:
    def measure(one: ChoiceScores) -> MetricValue:
        best = one.best()
        tied = one.is_tied(one.logprobs)
        return MetricValue(metric, (one.gold, best), one.choices[best], is_tied=tied)

    return measure


def _brier_score(one: ChoiceScores) -> MetricValue:
    top = max(one.logprobs)
    if top == -math.inf:
        why = "all choices have probability 0, so they cannot be normalized"
        raise DocumentError(why)
    weights = [math.exp(logprob - top) for logprob in one.logprobs]
    total = sum(weights)
    value = one.gold, tuple(weight / total for weight in weights)
    return MetricValue("brier_score", value, one.choices[one.best()])


CHOICE_METRICS: Mapping[str, _Measure] = {
    "acc": lambda one: one.score_of("acc", one.logprobs),
    "acc_bytes": _normalized("acc_bytes", lambda choice: len(choice.encode())),
    "acc_mutual_info": _acc_mutual_info,
    "acc_norm": _normalized("acc_norm", len),
    "brier_score": _brier_score,
    "exact_match": _exact_match,
    "f1": _labels("f1"),
    "likelihood": lambda one: MetricValue(
        "likelihood", (one.gold, one.logprobs), one.choices[one.best()]
    ),
    "mcc": _labels("mcc"),
}

CONTINUATION_METRICS: Mapping[str, Callable[[float, bool], float | int]] = {
    "acc": lambda logprob, greedy: int(greedy),
    # Of the whole target: perplexity per target, not per token.
    "perplexity": lambda logprob, greedy: logprob,
}
"""Name → value of a continuation's log-probability (nats) and greedy flag."""


def _n_words(text: str) -> int:
    # White space at either end adds an empty word, which is counted.
    return len(re.split(r"\s+", text))


def _n_bytes(text: str) -> int:
    return len(text.encode())


ROLLING_METRICS: Mapping[str, Callable[[str], int]] = {
    "bits_per_byte": _n_bytes,
    "byte_perplexity": _n_bytes,
    "word_perplexity": _n_words,
}
"""Name → length that a text's log-probability is divided by."""


def measure_continuation(
    doc: Doc, results: Sequence[Any], metrics: Collection[str]
) -> list[MetricValue]:
    """Values of the metrics for a document, in the given order. Raises DocumentError if
    the results are not one ``(log-probability, greedy)`` pair."""
    logprob, greedy = check_pair(_single(results))
    target = doc.choices[0] if doc.choices else "greedy"
    answer = target if greedy else ""
    return [
        MetricValue(name, CONTINUATION_METRICS[name](logprob, greedy), answer)
        for name in metrics
    ]


def measure_rolling(
    doc: Doc, results: Sequence[Any], metrics: Collection[str]
) -> list[MetricValue]:
    """Values of the metrics for a document, in the given order: log-probability and
    length of the text. Raises DocumentError if the results are not one log-probability.
    """
    logprob = _single(results)
    if not isinstance(logprob, (int, float)) or math.isnan(logprob):
        raise DocumentError(f"a log-probability was expected, got {logprob!r}")
    return [
        MetricValue(name, (float(logprob), ROLLING_METRICS[name](doc.query)))
        for name in metrics
    ]


def _single(results: Sequence[Any]) -> Any:
    if len(results) != 1:
        raise DocumentError(f"one result was expected, got {len(results)}")
    return results[0]
