"""The documents that a baseline and a run share: baseline gates judge only these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import MIN_OVERLAP, Find, Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.documents import InvalidGateError


def shared_documents(
    gate: Gate, result: TaskResult | GroupResult, find: Find
) -> tuple[TaskResult | GroupResult, tuple[str, ...]]:
    """The documents that the baseline has with equal content, and notes about the
    others. A group is compared without its tasks that are new.

    Raises:
        InvalidGateError: The runs are not comparable or share too few documents;
            skipped if this run becomes the baseline, or if the task is new.
    """
    if isinstance(result, TaskResult):
        reference = find(gate.baseline, result.task.name)
        _check(gate, reference)
        return _shared(result, reference), tuple(_notes("", reference))
    references = {
        one.task.name: find(gate.baseline, one.task.name) for one in result.tasks
    }
    known = [one for one in result.tasks if not references[one.task.name].is_new]
    tasks, notes = [], dict[str, None]()
    for task in known or result.tasks:
        name = task.task.name
        try:
            _check(gate, references[name])
        except InvalidGateError as error:
            raise error.of_task(name) from error
        tasks.append(_shared(task, references[name]))
        notes |= dict.fromkeys(_notes(f"{name}: ", references[name]))
    new = [name for name, one in references.items() if one.is_new]
    notes |= dict.fromkeys(f"{name}: new, not in {gate.baseline!r}" for name in new)
    if not notes:
        return result, ()
    metrics = tuple(_summed(metric, tasks) for metric in result.metrics)
    return replace(result, tasks=tuple(tasks), metrics=metrics), tuple(notes)


def _check(gate: Gate, reference: Reference) -> None:
    fault, overlap, name = reference.fault, reference.overlap, reference.baseline
    if not fault and overlap is not None:
        least = MIN_OVERLAP if gate.min_overlap is None else gate.min_overlap
        if why := overlap.fault(least):
            fault = f"baseline {name!r} is not comparable: {why}"
    if fault and reference.is_replaced:
        why = f"not compared, since this run becomes the baseline: {fault}"
        raise InvalidGateError(why, Outcome.SKIPPED)
    if fault:
        new = Outcome.SKIPPED if reference.is_new else Outcome.INVALID
        raise InvalidGateError(fault, new)


def _notes(start: str, reference: Reference) -> Iterator[str]:
    if reference.overlap is not None:
        yield f"{start}{reference.overlap.text}"


def _shared(result: TaskResult, reference: Reference) -> TaskResult:
    overlap = reference.overlap
    if overlap is None:
        return result
    records = tuple(one for one in result.records if one.index in overlap.shared)
    shared = replace(result, records=records)
    return replace(
        shared, metrics=tuple(_counted(one, shared) for one in result.metrics)
    )


def _counted(metric: MetricResult, result: TaskResult) -> MetricResult:
    """The metric with the counts of these documents; its number stays that of all."""
    counted = [one for one in result.records if not (one.error or one.excluded)]
    scores = [s for one in counted for s in one.scores if s.key == metric.key]
    values = [score.value for score in scores if not score.unscored]
    return replace(
        metric,
        n_errored=sum(bool(one.error) for one in result.records if not one.excluded),
        n_unscored=len(scores) - len(values),
        n_scored=len(values),
        total=None if metric.total is None else int(sum(values)),
    )


def _summed(metric: MetricResult, tasks: list[TaskResult]) -> MetricResult:
    """A group's metric with the counts of its tasks."""
    own = [m for task in tasks for m in task.metrics if m.key == metric.key]
    return replace(
        metric,
        n_errored=sum(one.n_errored for one in own),
        n_unscored=sum(one.n_unscored for one in own),
        n_scored=sum(one.n_scored for one in own),
    )
