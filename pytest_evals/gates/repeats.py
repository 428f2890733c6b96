"""Several answers to each document: reduce them to one value.

The names are those of Inspect and lm-eval: ``mean``, ``max``, ``majority``, ``pass@k``
(at least one of k answers is correct) and ``pass^k`` (all k are). Gates count
documents, not answers: answers to one document are correlated, and counting them as
independent would give confidence intervals that are far too narrow.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.score import Score
from pytest_evals.gates.documents import InvalidGateError, values_of
from pytest_evals.stats.averages import mean, mean_stderr

__all__ = [
    "REDUCERS",
    "is_reducer",
    "n_needed",
    "reduced",
    "reduced_group",
    "reduced_reference",
    "reduced_result",
]


_PLAIN = ("mean", "max", "majority")
_OF_K = re.compile(r"pass([@^])([1-9]\d*)", re.ASCII)
REDUCERS = (*_PLAIN, "pass@k", "pass^k")
"""Their names, where k is a number."""


def is_reducer(name: str) -> bool:
    """Whether there is such a reducer."""
    return name in _PLAIN or bool(_OF_K.fullmatch(name))


def n_needed(name: str) -> int:
    """How many answers to a document the reducer takes at least."""
    match = _OF_K.fullmatch(name)
    return int(match[2]) if match else 1


def reduced(
    name: str, values: Sequence[float], answers: Sequence[Hashable] = ()
) -> float:
    """One value of a document's several.

    ``pass@k`` and ``pass^k`` are the unbiased estimates out of n answers, c of them
    right: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374) and
    C(c, k) / C(n, k) (Yao et al. 2024, arXiv 2406.12045).

    Args:
        name: Of the reducer.
        values: One an answer; not empty. For ``pass`` each is 0 or 1.
        answers: What was answered, one each; ``majority`` takes the value of the most
            frequent, of the earliest where several are.

    Raises:
        ValueError: There are fewer answers than the reducer takes, or values that are
            neither right nor wrong.
    """
    if name == "mean":
        return math.fsum(values) / len(values)
    if name == "max":
        return max(values)
    if name == "majority":
        ((most, _),) = Counter(answers).most_common(1)
        return values[list(answers).index(most)]
    if not {*values} <= {0, 1}:
        raise ValueError(f"{name} counts right answers, and a value is neither 0 nor 1")
    n, k = len(values), n_needed(name)
    if n < k:
        raise ValueError(f"{name} needs {k} answers to a document, and one has {n}")
    right = round(sum(values))
    if "^" in name:
        return math.comb(right, k) / math.comb(n, k)
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def reduced_group(gate: Gate, metric: MetricResult, result: GroupResult) -> GroupResult:
    """The group with each document's answers reduced.

    Raises:
        InvalidGateError: A task does not ask several times.
    """
    tasks = []
    for task in result.tasks:
        if not any(one.key == metric.key and one.n_scored for one in task.metrics):
            tasks.append(task)
            continue
        try:
            tasks.append(reduced_result(gate, metric, task))
        except InvalidGateError as error:
            raise error.of_task(task.task.name) from error
    return replace(result, tasks=tuple(tasks))


def reduced_result(gate: Gate, metric: MetricResult, result: TaskResult) -> TaskResult:
    """The task with each document's answers reduced, and the metric as their mean.

    Raises:
        InvalidGateError: Answers cannot be scored one by one, or are copies.
    """
    _check_copies(metric, result)
    records = tuple(_reduced(gate, metric, record) for record in result.records)
    values = [*values_of(replace(result, records=records), metric.key).values()]
    found = replace(
        metric,
        estimate=Estimate(mean(values), mean_stderr(values), "analytic"),
        total=sum(map(int, values)) if {*values} <= {0, 1} else None,
        how=Metric(
            name=metric.name,
            filter=metric.filter,
            aggregate=lambda given: Estimate(mean(given), mean_stderr(given)),
            higher_is_better=metric.higher_is_better,
            is_mean=True,
            limits=metric.how.known_limits if metric.how else None,
        ),
    )
    others = (one if one.key != metric.key else found for one in result.metrics)
    return replace(result, records=records, metrics=tuple(others))


def _reduced(gate: Gate, metric: MetricResult, record: Record) -> Record:
    scores = tuple(
        _one(gate, record, score) if score.key == metric.key else score
        for score in record.scores
    )
    return replace(record, scores=scores)


def _one(gate: Gate, record: Record, score: Score) -> Score:
    if score.unscored or record.error:
        return score
    if not score.repeats:
        raise InvalidGateError(
            f"reducer {gate.reducer!r} needs the value of each answer, and document "
            f"{record.doc.id!r} has none: the task asks once, or its filters take "
            "several answers at once"
        )
    if not all(isinstance(value, (int, float)) for value in score.repeats):
        raise InvalidGateError(f"{score.key} has no numbers to reduce")
    try:
        value = reduced(gate.reducer, score.repeats, score.repeat_answers)
    except ValueError as error:
        raise InvalidGateError(str(error)) from error
    return replace(score, value=value)


def reduced_reference(
    gate: Gate, metric: MetricResult, reference: Reference
) -> dict[int, float]:
    """Position of a document to its reduced value in a baseline.

    Raises:
        InvalidGateError: The baseline has no answers, or they cannot be reduced.
    """
    kept = reference.repeats.get(metric.key)
    if not kept:
        name = reference.baseline
        raise InvalidGateError(
            f"baseline {name!r} has not kept the value of each answer; a run with this "
            f"gate and --evals-save={name} does, where answers are not copies"
        )
    try:
        return {
            at: reduced(gate.reducer, answers.values, answers.texts)
            for at, answers in kept.items()
        }
    except ValueError as error:
        why = f"in baseline {reference.baseline!r}, {error}"
        raise InvalidGateError(why) from error


def _check_copies(metric: MetricResult, result: TaskResult) -> None:
    scores = [s for r in result.records for s in r.scores if s.key == metric.key]
    if len(scores) > 1 and all(score.is_copied for score in scores):
        n = len(scores[0].repeats)
        raise InvalidGateError(
            f"all {n} answers to each document are the same text though the "
            "temperature is above 0: copies of one answer are no evidence"
        )
