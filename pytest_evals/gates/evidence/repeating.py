"""Tasks that ask several times: the values of a document's answers as one value.

Documents, not answers, are what is counted: answers to one document hang together, and
to count them all as independent would promise far too narrow intervals.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.score import Score
from pytest_evals.gates.evidence.documents import values_of
from pytest_evals.gates.evidence.reducers import reduced
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.stats.averages import mean, mean_stderr

__all__ = ["of_group", "reduced_reference", "reduced_result"]


def of_group(gate: Gate, metric: MetricResult, result: GroupResult) -> GroupResult:
    """The group with each document's answers reduced.

    Raises:
        UnsoundError: A task does not ask several times.
    """
    tasks = []
    for task in result.tasks:
        if not any(one.key == metric.key and one.n_scored for one in task.metrics):
            tasks.append(task)
            continue
        try:
            tasks.append(reduced_result(gate, metric, task))
        except UnsoundError as error:
            raise error.of(task.task.name) from error
    return replace(result, tasks=tuple(tasks))


def reduced_result(gate: Gate, metric: MetricResult, result: TaskResult) -> TaskResult:
    """The task with each document's answers reduced, and the metric as their mean.

    Raises:
        UnsoundError: Answers cannot be scored one by one, or are copies.
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
        raise UnsoundError(
            f"reducer {gate.reducer!r} needs the value of each answer, and document "
            f"{record.doc.id!r} has none: the task asks once, or its filters take "
            "several answers at once"
        )
    if not all(isinstance(value, (int, float)) for value in score.repeats):
        raise UnsoundError(f"{score.key} has no numbers to reduce")
    try:
        value = reduced(gate.reducer, score.repeats, score.repeat_answers)
    except ValueError as error:
        raise UnsoundError(str(error)) from error
    return replace(score, value=value)


def reduced_reference(
    gate: Gate, metric: MetricResult, reference: Reference
) -> dict[int, float]:
    """Position of a document to its reduced value in a baseline.

    Raises:
        UnsoundError: The baseline has not kept the answers, or they cannot be reduced.
    """
    kept = reference.repeats.get(metric.key)
    if not kept:
        name = reference.baseline
        raise UnsoundError(
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
        raise UnsoundError(why) from error


def _check_copies(metric: MetricResult, result: TaskResult) -> None:
    scores = [s for r in result.records for s in r.scores if s.key == metric.key]
    if len(scores) > 1 and all(score.is_copied for score in scores):
        n = len(scores[0].repeats)
        raise UnsoundError(
            f"all {n} answers to each document are the same text though the "
            "temperature is above 0: copies of one answer are no evidence"
        )
