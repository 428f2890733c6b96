"""Per-document values that gates read: values of a metric, clusters, answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Compared
from pytest_evals.core.request import Loglikelihood
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.core.top_logprobs import (
    compact,
    shown_top_logprobs,
    task_with_top_logprobs,
)
from pytest_evals.gates.run_metrics import RUN_METRICS, facts_of

__all__ = [
    "InvalidGateError",
    "Required",
    "asking_for",
    "labels_in",
    "labels_of",
    "required_by",
    "values_of",
    "with_labels",
    "with_required",
]


class InvalidGateError(Exception):
    """The gate cannot be evaluated; :mod:`pytest_evals.gates.judge` makes it a verdict.

    Args:
        reason: For the verdict.
        outcome: Of the verdict.
    """

    def __init__(self, reason: str, outcome: Outcome = Outcome.INVALID) -> None:
        """Keep both for the verdict."""
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome

    def of_task(self, task: str) -> InvalidGateError:
        """The same error with the name of a group's task in front."""
        return InvalidGateError(f"{task}: {self.reason}", self.outcome)


class Required(NamedTuple):
    """What the gates of a task need of each document beyond its scores.

    Args:
        fields: Fields of the rows that are clusters.
        repeats: Whether each answer's value is kept.
        compared: Whether answers and log-probabilities are kept.
        counts: Metrics of the run whose values are kept.
    """

    fields: frozenset[str]
    repeats: bool
    compared: bool = False
    counts: tuple[str, ...] = ()


def required_by(gates: Iterable[Gate], *, every_count: bool = False) -> Required:
    """What these gates need of each document; tests may need everything."""
    every = [*gates]
    fields = frozenset(gate.cluster for gate in every if gate.cluster)
    repeats = any(
        gate.reducer or gate.every or gate.must_pass_share != 1 for gate in every
    )
    compared = any(gate.baseline and gate.margin is None for gate in every)
    named = {gate.metric for gate in every}
    counts = tuple(one for one in RUN_METRICS if every_count or one in named)
    return Required(fields, every_count or repeats, compared or every_count, counts)


def asking_for(task: Task, gates: Iterable[Gate]) -> Task:
    """The task, whose requests ask for what its gates need."""
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


def _compared(record: Record) -> Compared:
    answers: dict[str, str] = {}
    for score in record.scores:
        answers.setdefault(score.filter, score.answer)
    is_choice = all(isinstance(one, Loglikelihood) for one in record.requests)
    found = [one.logprob for one in record.responses if is_choice]
    logprobs = tuple(one for one in found if one is not None)
    tops = record.responses[0].top_logprobs if record.responses else ()
    return Compared(
        answers,
        logprobs[: len(record.doc.choices) or None],
        compact(shown_top_logprobs(tops)),
    )


def with_labels(
    result: TaskResult | GroupResult, field: str
) -> TaskResult | GroupResult:
    """The results with a field of each document's row, for a gate that was created
    after the documents were scored."""
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
    """The clusters of a document, as text, without those that it lacks."""
    found = {}
    for field in fields:
        value = _value(doc, field)
        if value is not None:
            found[field] = str(value)
    return found


def _value(doc: Doc, field: str) -> Any:
    """A field of the row, or of the part that the task keeps; ``idx.paragraph`` is a
    nested field."""
    for holder in (doc.row, doc.specific or {}):
        value: Any = holder
        for part in [field] if field in holder else field.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def values_of(result: TaskResult, key: str) -> dict[int, Any]:
    """Position of each scored document → its value of a metric.

    Args:
        result: The task.
        key: Metric and filter: ``acc,none``.
    """
    return {
        record.index: score.value
        for record in result.records
        for score in record.scores
        if score.key == key and not (score.unscored or record.error or record.excluded)
    }


def labels_of(
    result: TaskResult, field: str, positions: Sequence[int]
) -> list[str] | None:
    """The cluster of each of these documents.

    Args:
        result: The task.
        field: Field of the rows; empty for independent documents, which gives ``None``.
        positions: The documents.

    Raises:
        InvalidGateError: A document has no such field, or all have the same value.
    """
    if not field:
        return None
    records = {record.index: record for record in result.records}
    found = []
    for position in positions:
        record = records[position]
        if field not in record.labels:
            raise InvalidGateError(
                f"document {record.doc.id!r} has no field {field!r} to cluster by"
            )
        found.append(record.labels[field])
    if len({*found}) < 2:
        raise InvalidGateError(
            f"all documents have the same {field!r}: a single cluster has no variance "
            "between clusters"
        )
    return found
