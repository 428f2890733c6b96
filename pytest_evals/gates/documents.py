"""Per-document values of gates: values of a metric, clusters, answers; and the
reduction of several answers to one value.

The names of reducers are those of Inspect and lm-eval: ``mean``, ``max``, ``majority``,
``pass@k`` (at least one of k answers is correct) and ``pass^k`` (all k are). Gates
count documents, not answers: answers to one document are correlated, and counting them
as independent would give confidence intervals that are far too narrow.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import ComparedValues, Reference
from pytest_evals.core.request import Loglikelihood
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.core.top_logprobs import (
    compact,
    shown_top_logprobs,
    task_with_top_logprobs,
)
from pytest_evals.gates.run_metrics import RUN_METRICS, facts_of
from pytest_evals.stats.averages import mean, mean_stderr


class InvalidGateError(Exception):
    """The gate cannot be evaluated; :mod:`pytest_evals.gates.judge` turns it into a
    verdict.

    Args:
        reason: Reason of the verdict.
        outcome: Outcome of the verdict.
    """

    def __init__(self, reason: str, outcome: Outcome = Outcome.INVALID) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome

    def of_task(self, task: str) -> InvalidGateError:
        """The same error, prefixed with the name of a group's task."""
        return InvalidGateError(f"{task}: {self.reason}", self.outcome)


class Required(NamedTuple):
    """Requirements of a task's gates on each document, beyond its scores.

    Args:
        fields: Fields of the rows that are clusters.
        repeats: Whether each answer's value is kept.
        compared: Whether answers and log-probabilities are kept.
        counts: Run metrics whose values are kept.
    """

    fields: frozenset[str]
    repeats: bool
    compared: bool = False
    counts: tuple[str, ...] = ()


def required_by(gates: Iterable[Gate], *, every_count: bool = False) -> Required:
    """The requirements of these gates; tests may need everything."""
    every = [*gates]
    fields = frozenset(gate.cluster for gate in every if gate.cluster)
    repeats = any(gate.reducer or gate.every for gate in every)
    compared = any(gate.baseline and gate.margin is None for gate in every)
    named = {gate.metric for gate in every}
    counts = tuple(one for one in RUN_METRICS if every_count or one in named)
    return Required(fields, every_count or repeats, compared or every_count, counts)


def asking_for(task: Task, gates: Iterable[Gate]) -> Task:
    """The task, whose requests ask for top log-probabilities if its gates need them."""
    needs_tokens = any(gate.metric == "kl" and gate.baseline for gate in gates)
    return task_with_top_logprobs(task) if needs_tokens else task


def with_required(record: Record, task: Task, required: Required) -> Record:
    """The scored record with its clusters and the values of its answers."""
    if required.fields:
        record = replace(record, labels=labels_in(record.doc, required.fields))
    if required.compared and not record.error:
        record = replace(record, compared=_compared(record))
    if required.repeats and task.score_repeats is not None and not record.error:
        record = replace(record, scores=task.score_repeats(record))
    if required.counts:
        record = replace(record, facts=facts_of(record, required.counts))
    return record


def _compared(record: Record) -> ComparedValues:
    answers: dict[str, str] = {}
    for score in record.scores:
        answers.setdefault(score.filter, score.answer)
    is_choice = all(isinstance(one, Loglikelihood) for one in record.requests)
    of_choices = [one.logprob for one in record.responses if is_choice]
    logprobs = tuple(one for one in of_choices if one is not None)
    tops = record.responses[0].top_logprobs if record.responses else ()
    return ComparedValues(
        answers,
        logprobs[: len(record.doc.choices) or None],
        compact(shown_top_logprobs(tops)),
    )


def all_tied(metric: MetricResult, result: TaskResult | GroupResult) -> str:
    """Why a metric of selected choices says nothing: no document has a unique best one;
    empty if one has."""
    tasks = result.members if isinstance(result, GroupResult) else (result,)
    counted = [
        score.is_tied
        for task in tasks
        for record in task.records
        if not (record.error or record.excluded)
        for score in record.scores
        if score.key == metric.key and not score.unscored
    ]
    if not counted or not all(counted):
        return ""
    n = len(counted)
    documents = "the only document" if n == 1 else f"all {n:,} documents"
    return (
        f"in {documents} several choices are equally likely, so that the first of them "
        "was selected: the log-probabilities of the model say nothing"
    )


def with_labels(
    result: TaskResult | GroupResult, field: str
) -> TaskResult | GroupResult:
    """The results with a field of each row, for a gate created after scoring."""
    if isinstance(result, GroupResult):
        return replace(result, tasks=tuple(_labelled(t, field) for t in result.tasks))
    return _labelled(result, field)


def _labelled(result: TaskResult, field: str) -> TaskResult:
    ask = result.task.ask
    records = []
    for record in result.records:
        if field not in record.labels and not record.error:
            labels = labels_in(ask(record.index).doc, [field])
            record = replace(record, labels={**record.labels, **labels})
        records.append(record)
    return replace(result, records=tuple(records))


def labels_in(doc: Doc, fields: Collection[str]) -> dict[str, str]:
    """The clusters of a document, as text, without missing and empty ones."""
    labels = {}
    for field in fields:
        value = _value(doc, field)
        if value is not None and value != "":
            labels[field] = str(value)
    return labels


def _value(doc: Doc, field: str) -> Any:
    """A field of the row, or of the part that the task keeps."""
    found = field_in(doc.row, field)
    return field_in(doc.specific or {}, field) if found is None else found


def field_in(row: Mapping[str, Any], field: str) -> Any:
    """A field of a row, ``None`` if it is missing; ``idx.paragraph`` is a nested
    field."""
    value: Any = row
    for part in [field] if field in row else field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def values_of(result: TaskResult, key: str) -> dict[int, Any]:
    """Position of each scored document → its value of a metric. ``key``: metric and
    filter: ``acc,none``."""
    return {
        record.index: score.value
        for record in result.records
        for score in record.scores
        if score.key == key and not (score.unscored or record.error or record.excluded)
    }


def with_range(
    gate: Gate, result: TaskResult | GroupResult
) -> TaskResult | GroupResult:
    """The results with the range that a gate declares for its metric.

    Raises:
        InvalidGateError: A document has a value outside of it.
    """
    if gate.range is None:
        return result
    if isinstance(result, GroupResult):
        tasks = tuple(_task_with_range(gate, one) for one in result.tasks)
        return replace(result, tasks=tasks)
    return _task_with_range(gate, result)


def _task_with_range(gate: Gate, result: TaskResult) -> TaskResult:
    metrics = [
        _metric_with_range(gate, result, one) if one.name == gate.metric else one
        for one in result.metrics
    ]
    return replace(result, metrics=tuple(metrics))


def _metric_with_range(
    gate: Gate, result: TaskResult, metric: MetricResult
) -> MetricResult:
    if metric.how is not None:
        check_range(gate, result, values_of(result, metric.key))
        return replace(metric, how=replace(metric.how, limits=gate.range))
    if metric.estimate is None:
        return metric
    # A number of a user's hook, without values of documents.
    return replace(metric, estimate=replace(metric.estimate, range=gate.range))


def check_range(
    gate: Gate, result: TaskResult, values: Mapping[int, Any], where: str = ""
) -> None:
    """Check values of documents against the range that a gate declares.

    Args:
        values: Position of a document → its value.
        where: The run that they are from.

    Raises:
        InvalidGateError: One is outside of it.
    """
    if gate.range is None:
        return
    low, high = gate.range
    for at, value in values.items():
        if isinstance(value, (int, float)) and not low <= value <= high:
            ids = {record.index: record.doc.id for record in result.records}
            raise InvalidGateError(
                f"document {ids.get(at, at)!r} has {gate.metric} {value:g}{where}, "
                f"outside of the gate's range [{low:g}, {high:g}]"
            )


def labels_of(
    result: TaskResult, field: str, positions: Sequence[int]
) -> list[str] | None:
    """The cluster of each of these documents.

    Args:
        field: Field of the rows; empty for independent documents, which gives ``None``.

    Raises:
        InvalidGateError: A document has no such field, or all documents have the same
            value.
    """
    if not field:
        return None
    records = {record.index: record for record in result.records}
    labels = []
    for position in positions:
        record = records[position]
        if field not in record.labels:
            raise InvalidGateError(
                f"document {record.doc.id!r} has no field {field!r} to cluster by"
            )
        labels.append(record.labels[field])
    if len({*labels}) < 2:
        raise InvalidGateError(
            f"all documents have the same {field!r}: a single cluster has no variance "
            "between clusters"
        )
    return labels


_PLAIN = ("mean", "max", "majority")
_OF_K = re.compile(r"pass([@^])([1-9]\d*)", re.ASCII)
REDUCERS = (*_PLAIN, "pass@k", "pass^k")
"""Names of reducers with a number k."""


def is_reducer(name: str) -> bool:
    """Whether the name is a reducer."""
    return name in _PLAIN or bool(_OF_K.fullmatch(name))


def n_needed(name: str) -> int:
    """The smallest number of answers to a document that the reducer accepts."""
    match = _OF_K.fullmatch(name)
    return int(match[2]) if match else 1


def reduced(
    name: str, values: Sequence[float], answers: Sequence[Hashable] = ()
) -> float:
    """Reduce the values of a document's answers to one.

    ``pass@k`` and ``pass^k`` are the unbiased estimates from n answers, c of them
    correct: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374) and C(c, k) /
    C(n, k) (Yao et al. 2024, arXiv 2406.12045).

    Args:
        values: One for each answer; not empty. For ``pass`` each is 0 or 1.
        answers: The answers; ``majority`` returns the value of the most frequent one,
            the earliest of several.

    Raises:
        ValueError: There are too few answers for the reducer, or values that are
            neither 0 nor 1.
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


def reduced_result(
    gate: Gate, metric: MetricResult, result: TaskResult | GroupResult
) -> TaskResult | GroupResult:
    """The results with each document's answers reduced, and the metric of each task as
    their mean.

    Raises:
        InvalidGateError: Answers cannot be scored one by one, or are copies.
    """
    if isinstance(result, TaskResult):
        return _reduced_task(gate, metric, result)
    tasks = []
    for task in result.tasks:
        own = next((one for one in task.metrics if one.key == metric.key), None)
        try:
            if own is not None and own.n_scored:
                task = _reduced_task(gate, own, task)
            tasks.append(task)
        except InvalidGateError as error:
            raise error.of_task(task.task.name) from error
    return replace(result, tasks=tuple(tasks))


def _reduced_task(gate: Gate, metric: MetricResult, result: TaskResult) -> TaskResult:
    _check_copies(metric, result)
    records = tuple(_reduced(gate, metric, record) for record in result.records)
    values = [*values_of(replace(result, records=records), metric.key).values()]
    reduced = replace(
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
    others = (one if one.key != metric.key else reduced for one in result.metrics)
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
            f"{record.doc.id!r} has none: the task has one answer, or its filters "
            "combine several answers"
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
        InvalidGateError: The baseline has no repeated answers, or they cannot be
            reduced.
    """
    kept = reference.repeats.get(metric.key)
    if not kept:
        name = reference.baseline
        raise InvalidGateError(
            f"baseline {name!r} has not kept the value of each answer; a run with this "
            f"gate and --evals-save-baseline={name} does, where answers are not copies"
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
            f"all {n} answers to each document are identical although the "
            "temperature is above 0, so they are copies and not independent"
        )
