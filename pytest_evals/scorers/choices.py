"""Metrics of documents with choices: which choice the model finds most likely.

Formulas as in lm-eval 0.4.13 (``ConfigurableTask.process_results``); the first of equal
maxima wins. Works on one document at a time, in plain Python: there are few choices and
many documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.metric_value import Measured

NO_CHOICE = -100
"""The gold index of a correct answer that is not a choice (lm-eval's value)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One document's choices and what the model makes of them.

    Args:
        choices: Their texts, without delimiter.
        gold: Index of the right choice; a list in tasks with several right choices.
            ``NO_CHOICE`` where it is not among them.
        logprobs: Nats, one a choice.
        greedy: Whether greedy decoding gives the choice, one a choice.
        unconditional: Nats of each choice without the question; empty unless asked for.
    """

    choices: tuple[str, ...]
    gold: int | list[int]
    logprobs: tuple[float, ...]
    greedy: tuple[bool, ...]
    unconditional: tuple[float, ...] = ()

    def is_gold(self, index: int) -> bool:
        """Whether that choice is right."""
        if isinstance(self.gold, list):
            return index in self.gold
        return index == self.gold

    def best(self) -> int:
        """Index of the most likely choice."""
        return _argmax(self.logprobs)

    def elected(self, metric: str, index: int) -> Measured:
        """The 0/1 score of a choice that was elected."""
        return Measured(metric, float(self.is_gold(index)), self.choices[index])


def ballot(doc: Doc, results: Sequence[Any]) -> Ballot:
    """The ballot of a document.

    Args:
        doc: Its choices and gold index.
        results: ``(log-probability, greedy)`` pairs, one a choice; then, if these were
            asked, as many without the question.

    Raises:
        DocumentError: The results do not fit the choices.
    """
    choices = tuple(doc.choices)
    pairs = [check_pair(result) for result in results]
    n = len(choices)
    if n == 0 or len(pairs) not in (n, 2 * n):
        raise DocumentError(f"there are {n} choices and {len(pairs)} results")
    return Ballot(
        choices=choices,
        gold=_gold(doc.gold_index, n),
        logprobs=tuple(logprob for logprob, _ in pairs[:n]),
        greedy=tuple(greedy for _, greedy in pairs[:n]),
        unconditional=tuple(logprob for logprob, _ in pairs[n:]),
    )


def check_pair(result: Any) -> tuple[float, bool]:
    """The result as log-probability and greedy flag.

    Raises:
        DocumentError: It is not such a pair, or the log-probability is NaN.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise DocumentError(
            f"a (log-probability, greedy) pair was expected, got {result!r}; "
            "the filter pipeline must leave one a request"
        )
    logprob, greedy = result
    if not isinstance(logprob, (int, float)) or math.isnan(logprob):
        raise DocumentError(f"a log-probability was expected, got {logprob!r}")
    return float(logprob), bool(greedy)


def measure_choices(
    doc: Doc, results: Sequence[Any], metrics: Collection[str]
) -> list[Measured]:
    """The document's value of each metric, in the order asked.

    Raises:
        DocumentError: The results do not fit the choices or the metric.
    """
    one = ballot(doc, results)
    measured = [CHOICE_METRICS[name](one) for name in metrics]
    if _is_sound(one):
        return measured
    why = f"the right answer {doc.gold_index!r} is not among the choices"
    return [m._replace(explanation=why) for m in measured]


def _gold(gold: int | Sequence[int], n_choices: int) -> int | list[int]:
    # Negative indices are kept: they are never equal to a choice's index, but
    # exact_match counts them from the end, as lm-eval does.
    if isinstance(gold, (list, tuple)):
        return [index if index < n_choices else NO_CHOICE for index in gold]
    assert isinstance(gold, int)
    return gold if gold < n_choices else NO_CHOICE


def _is_sound(one: Ballot) -> bool:
    golds = one.gold if isinstance(one.gold, list) else [one.gold]
    return all(gold >= 0 for gold in golds)


def _argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _per(logprob: float, length: int) -> float:
    """Nats per unit of length. A choice without any is impossible, unless it costs
    nothing: then it wins (NumPy's 0/0 is NaN, which its argmax takes for the
    largest)."""
    if length:
        return logprob / length
    return math.inf if logprob == 0 else -math.inf


def _acc(one: Ballot) -> Measured:
    return one.elected("acc", one.best())


def _acc_norm(one: Ballot) -> Measured:
    lengths = map(len, one.choices)
    return one.elected("acc_norm", _argmax(list(map(_per, one.logprobs, lengths))))


def _acc_bytes(one: Ballot) -> Measured:
    lengths = (len(choice.encode()) for choice in one.choices)
    return one.elected("acc_bytes", _argmax(list(map(_per, one.logprobs, lengths))))


def _acc_mutual_info(one: Ballot) -> Measured:
    if not one.unconditional:
        raise DocumentError(
            "acc_mutual_info needs a second log-probability of each choice, without "
            "the question"
        )
    if isinstance(one.gold, list) and len(one.gold) != 1:
        raise DocumentError(
            f"acc_mutual_info is not defined for {len(one.gold)} right choices"
        )
    gains = [
        given - alone
        for given, alone in zip(one.logprobs, one.unconditional, strict=True)
    ]
    return one.elected("acc_mutual_info", _argmax(gains))


def _exact_match(one: Ballot) -> Measured:
    golds = one.gold if isinstance(one.gold, list) else [one.gold]
    n = len(one.choices)
    hit = any(one.greedy[gold] for gold in golds if gold >= -n)
    answer = next((c for c, g in zip(one.choices, one.greedy, strict=True) if g), "")
    return Measured("exact_match", int(hit), answer)


def _labels(metric: str) -> Callable[[Ballot], Measured]:
    def measure(one: Ballot) -> Measured:
        best = one.best()
        return Measured(metric, (one.gold, best), one.choices[best])

    return measure


def _brier_score(one: Ballot) -> Measured:
    top = max(one.logprobs)
    if top == -math.inf:
        raise DocumentError("every choice is impossible to the model: no probabilities")
    weights = [math.exp(logprob - top) for logprob in one.logprobs]
    total = sum(weights)
    probabilities = tuple(weight / total for weight in weights)
    return Measured("brier_score", (one.gold, probabilities), one.choices[one.best()])


def _likelihood(one: Ballot) -> Measured:
    return Measured("likelihood", (one.gold, one.logprobs), one.choices[one.best()])


CHOICE_METRICS: Mapping[str, Callable[[Ballot], Measured]] = {
    "acc": _acc,
    "acc_bytes": _acc_bytes,
    "acc_mutual_info": _acc_mutual_info,
    "acc_norm": _acc_norm,
    "brier_score": _brier_score,
    "exact_match": _exact_match,
    "f1": _labels("f1"),
    "likelihood": _likelihood,
    "mcc": _labels("mcc"),
}
"""Name → how it is measured."""
