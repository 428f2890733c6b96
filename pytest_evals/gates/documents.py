"""What gates need of each document beyond its scores: clusters, and the values of
its answers. A run keeps it when the document is scored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate
from pytest_evals.core.record import Record
from pytest_evals.core.reference import ComparedValues
from pytest_evals.core.request import Loglikelihood
from pytest_evals.core.result import AnyResult, GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.core.top_logprobs import (
    compact,
    shown_top_logprobs,
    task_with_top_logprobs,
)
from pytest_evals.gates.run_metrics import RUN_METRICS, facts_of


class Required(NamedTuple):
    """Requirements of a task's gates on each document, beyond its scores."""

    fields: frozenset[str]  # of the rows, that are clusters
    repeats: bool  # whether each answer's value is kept
    compared: bool = False  # whether answers and log-probabilities are kept
    counts: tuple[str, ...] = ()  # run metrics whose values are kept


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


def with_labels(result: AnyResult, field: str) -> AnyResult:
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
        value = field_in(doc.row, field)
        if value is None:  # of the part that the task keeps
            value = field_in(doc.specific or {}, field)
        if value is not None and value != "":
            labels[field] = str(value)
    return labels


def field_in(row: Mapping[str, Any], field: str) -> Any:
    """A field of a row, ``None`` if it is missing; ``idx.paragraph`` is a nested
    field."""
    value: Any = row
    for part in [field] if field in row else field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
