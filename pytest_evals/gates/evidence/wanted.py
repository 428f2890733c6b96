"""What gates need of a document and would else be dropped: its clusters, and the value
of each of its answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.record import Record
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.gates.evidence.documents import labels_in
from pytest_evals.gates.evidence.run_metrics import RUN_METRICS, facts_of

__all__ = ["Wanted", "wanted_by", "with_facts", "with_labels"]


class Wanted(NamedTuple):
    """What the gates of a task want.

    Args:
        fields: Fields of the rows that group its documents.
        repeats: Whether each answer's value is to be kept.
        counts: Metrics of the run whose values are to be kept.
    """

    fields: frozenset[str]
    repeats: bool
    counts: tuple[str, ...] = ()


def wanted_by(gates: Iterable[Gate], *, every_count: bool = False) -> Wanted:
    """What these gates want of each document; tests may ask for everything."""
    every = [*gates]
    fields = frozenset(gate.cluster for gate in every if gate.cluster)
    named = {gate.metric for gate in every}
    counts = tuple(one for one in RUN_METRICS if every_count or one in named)
    return Wanted(fields, every_count or any(gate.reducer for gate in every), counts)


def with_facts(record: Record, task: Task, wanted: Wanted) -> Record:
    """The scored record with what is wanted of it."""
    if wanted.fields:
        record = replace(record, labels=labels_in(record.doc, wanted.fields))
    if wanted.repeats and task.score_repeats is not None and not record.error:
        record = replace(record, scores=task.score_repeats(record))
    if wanted.counts:
        record = replace(record, facts=facts_of(record, wanted.counts))
    return record


def with_labels(
    result: TaskResult | GroupResult, field: str
) -> TaskResult | GroupResult:
    """The results with a field of each document's row, for a claim that was not known
    when the documents were scored."""
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
