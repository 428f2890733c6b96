"""The documents of a gate as columns: positions, values and clusters of those with a
value of its metric, and the documents without one. The estimates read nothing else.

Baseline gates judge only the documents that the baseline has with equal content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import MIN_OVERLAP, Find, Reference
from pytest_evals.core.result import AnyResult, GroupResult, TaskResult
from pytest_evals.errors import plural, suggestion
from pytest_evals.gates.check import NO_GROUP_LABELS
from pytest_evals.gates.reducers import reduced_reference, reduced_scores
from pytest_evals.gates.terms import InvalidGateError, Pairs, has_limits, missing_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The documents of a task, as a gate on one metric counts them."""

    task: str
    metric: MetricResult  # over these documents
    size: int
    """Largest number of documents of any metric, which weights the tasks of a group."""
    positions: Sequence[int]  # documents with a value
    values: Sequence[Any]
    scores: Sequence[Score] = ()  # none if they contain only the values
    lost: Sequence[int] = ()  # documents that were run and have no value
    absent: Sequence[int] = ()  # scored documents without this metric
    excluded: Sequence[int] = ()  # documents that count in no metric
    labels: Mapping[int, str] | Sequence[str] = field(default_factory=dict)
    """Cluster of each document, by position; missing ones are absent."""
    reference: Reference | None = None  # the task in the baseline
    result: TaskResult | None = None
    """The task's result; ``None`` if the values are from elsewhere."""

    @property
    def ids(self) -> Mapping[int, str]:
        """Position of a document → its id."""
        if self.result is None:
            every = (*self.positions, *self.lost)
            return {position: str(position) for position in every}
        if self.result.columns:  # of too many documents for records
            return dict(enumerate(self.result.task.rows.ids()))
        return {record.index: record.doc.id for record in self.result.records}

    def clusters(self, name: str, positions: Sequence[int]) -> list[str] | None:
        """The cluster of each of these documents. ``name``: field of the rows; empty
        for independent documents, which gives ``None``."""
        if not name:
            return None
        try:
            labels = [self.labels[position] for position in positions]
        except KeyError as missing:
            id_ = self.ids[missing.args[0]]
            raise InvalidGateError(
                f"document {id_!r} has no field {name!r} to cluster by"
            ) from None
        if len({*labels}) < 2:
            raise InvalidGateError(
                f"all documents have the same {name!r}: a single cluster has no "
                "variance between clusters"
            )
        return labels

    def check_range(
        self, gate: Gate, values: Mapping[int, Any], where: str = ""
    ) -> None:
        """Check values of documents against the range that a gate declares."""
        if gate.range is None:
            return
        low, high = gate.range
        for at, value in values.items():
            if isinstance(value, (int, float)) and not low <= value <= high:
                raise InvalidGateError(
                    f"document {self.ids.get(at, at)!r} has {gate.metric} {value:g}"
                    f"{where}, outside of the gate's range [{low:g}, {high:g}]"
                )


class Member(NamedTuple):
    """A task of a group. ``weight``: all weights add up to 1."""

    seen: Observations
    weight: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservations:
    """The documents of a group."""

    metric: MetricResult  # the group's metric
    members: tuple[Member, ...] = ()
    """Its tasks, none if the gate needs only the group's number."""
    is_weighted: bool = True  # whether tasks are weighted by their documents
    times: Mapping[str, int] = field(default_factory=dict)
    """Task → how often the group includes it."""

    def with_tasks(self, tasks: Sequence[Observations]) -> GroupObservations:
        """The group with these tasks, weighted anew."""
        weights = [
            Fraction(self.times[one.task] * (one.size if self.is_weighted else 1))
            for one in tasks
        ]
        total = sum(weights)
        members = tuple(
            Member(one, weight / total)
            for one, weight in zip(tasks, weights, strict=True)
        )
        return replace(self, members=members)


GateDocuments = Observations | GroupObservations


def observe(
    gate: Gate, metric: MetricResult, result: AnyResult, find: Find
) -> tuple[GateDocuments, tuple[str, ...]]:
    """The documents of a gate on a metric, and notes about documents that do not count.
    Raises ``InvalidGateError`` if the gate cannot be judged on them; skipped if this
    run becomes the baseline, or if the task is new."""
    if isinstance(result, GroupResult):
        return _of_group(gate, metric, result, find)
    result, reference, notes = _with_reference(gate, result, find)
    return _of_task(gate, metric, result, reference), notes


def _with_reference(
    gate: Gate, result: TaskResult, find: Find
) -> tuple[TaskResult, Reference | None, tuple[str, ...]]:
    if gate.baseline:
        return shared_records(gate, result, find)
    control = find(gate.control, result.task.name) if gate.control else None
    return result, control, ()


def shared_records(
    gate: Gate, result: TaskResult, find: Find
) -> tuple[TaskResult, Reference, tuple[str, ...]]:
    """The documents that the baseline has with equal content, and notes about the
    others."""
    reference = find(gate.baseline, result.task.name)
    fault, overlap, name = reference.fault, reference.overlap, reference.baseline
    if not fault and overlap is not None:
        least = MIN_OVERLAP if gate.min_overlap is None else gate.min_overlap
        if why := overlap.fault(least):
            fault = f"baseline {name!r} is not comparable: {why}"
    if fault and reference.is_replaced:
        why = f"this run replaces the baseline, so it is not compared: {fault}"
        if reference.is_new:
            why = "this run is the first baseline"
        raise InvalidGateError(why, Outcome.SKIPPED)
    if fault:
        new = Outcome.SKIPPED if reference.is_new else Outcome.INVALID
        raise InvalidGateError(fault, new)
    if overlap is None:
        return result, reference, ()
    records = tuple(one for one in result.records if one.index in overlap.shared)
    return replace(result, records=records), reference, (overlap.text,)


def _of_task(
    gate: Gate, metric: MetricResult, result: TaskResult, reference: Reference | None
) -> Observations:
    if (metric.name, metric.filter) in result.columns:
        return prepared(gate, _of_columns(metric, result, reference))
    name, filter_ = metric.name, metric.filter
    scored: dict[int, Score] = {}
    lost, absent, excluded = [], [], []
    for record in result.records:
        matches = (s for s in record.scores if s.metric == name and s.filter == filter_)
        score = next(matches, None)
        if record.excluded:
            excluded.append(record.index)
        elif record.error or (score is not None and score.unscored):
            lost.append(record.index)
        elif score is None:
            absent.append(record.index)
        else:
            scored[record.index] = score
    values, size = [score.value for score in scored.values()], result.sample_len
    if reference is not None and reference.overlap is not None:
        n_errored = sum(bool(r.error) for r in result.records if not r.excluded)
        metric = _of_shared(metric, values, n_errored, len(lost) - n_errored)
        kept = [one for one in result.records if not (one.error or one.excluded)]
        counts = Counter(s.key for r in kept for s in r.scores if not s.unscored)
        size = max((counts[one.key] for one in result.metrics), default=0)
    seen = Observations(
        task=result.task.name,
        metric=metric,
        size=size,
        positions=[*scored],
        values=values,
        scores=[*scored.values()],
        lost=lost,
        absent=absent,
        excluded=excluded,
        labels=labels_in(gate.cluster, result.records),
        reference=reference,
        result=result,
    )
    return prepared(gate, seen)


def _of_columns(
    metric: MetricResult, result: TaskResult, reference: Reference | None
) -> Observations:
    positions: Sequence[int] = range(result.n_selected)
    values = result.columns[metric.name, metric.filter]
    if reference is not None and reference.overlap is not None:
        positions = sorted(reference.overlap.shared)
        values = [values[at] for at in positions]
        metric = _of_shared(metric, values)
    return Observations(
        task=result.task.name,
        metric=metric,
        size=len(values),
        positions=positions,
        values=values,
        reference=reference,
        result=result,
    )


def _of_shared(
    metric: MetricResult, values: Sequence[Any], n_errored: int = 0, n_unscored: int = 0
) -> MetricResult:
    """The metric with the counts of the documents that a baseline has too; its number
    stays that of all."""
    return replace(
        metric,
        n_errored=n_errored,
        n_unscored=n_unscored,
        n_scored=len(values),
        total=None if metric.total is None else int(sum(values)),
    )


def prepared(gate: Gate, seen: Observations) -> Observations:
    """The documents with the range that a gate declares, and with their answers
    reduced."""
    how, estimate = seen.metric.how, seen.metric.estimate
    if gate.range is not None and how is not None:
        seen.check_range(gate, dict(zip(seen.positions, seen.values, strict=True)))
        metric = replace(seen.metric, how=replace(how, limits=gate.range))
        seen = replace(seen, metric=metric)
    elif gate.range is not None and estimate is not None:
        # A number of a user's hook, without values of documents.
        ranged = replace(estimate, range=gate.range)
        seen = replace(seen, metric=replace(seen.metric, estimate=ranged))
    if not (gate.reducer and seen.values):
        return seen
    metric, values = reduced_scores(
        gate, seen.metric, seen.scores, lambda i: seen.ids[seen.positions[i]]
    )
    return replace(seen, metric=metric, values=values)


def labels_in(name: str, records: Sequence[Record]) -> Mapping[int, str]:
    """Position of a document → its cluster. ``name``: the field of the rows."""
    if not name:
        return {}
    return {one.index: one.labels[name] for one in records if name in one.labels}


def _of_group(
    gate: Gate, metric: MetricResult, result: GroupResult, find: Find
) -> tuple[GroupObservations, tuple[str, ...]]:
    """The tasks that have the metric, each once. If a group includes a task several
    times, its weight is multiplied accordingly."""
    tasks, notes = [*result.tasks], dict[str, None]()
    new: list[str] = []
    if gate.baseline:
        names = dict.fromkeys(one.task.name for one in tasks)
        new = [one for one in names if find(gate.baseline, one).is_new]
        tasks = [one for one in tasks if one.task.name not in new] or tasks
    times = Counter(one.task.name for one in tasks)
    seen: dict[str, Observations] = {}
    for task in {one.task.name: one for one in tasks}.values():
        name = task.task.name
        try:
            shared, reference, about = _with_reference(gate, task, find)
            for task_metric in task.metrics:
                if task_metric.key == metric.key:
                    seen[name] = _of_task(gate, task_metric, shared, reference)
        except InvalidGateError as error:
            raise error.of_task(name) from error
        notes |= dict.fromkeys(f"{name}: {note}" for note in about)
    notes |= dict.fromkeys(f"{name}: new, not in {gate.baseline!r}" for name in new)
    if notes:
        counts = [(one, times[one.task]) for one in seen.values()]
        metric = replace(
            metric,
            n_errored=sum(n * one.metric.n_errored for one, n in counts),
            n_unscored=sum(n * one.metric.n_unscored for one, n in counts),
            n_scored=sum(n * one.metric.n_scored for one, n in counts),
        )
    rules = [rule for rule in result.group.aggregates if rule.metric == gate.metric]
    by_task = has_limits(gate) or gate.baseline or gate.reducer
    if not by_task and not (rules and (metric.n_lost or gate.control)):
        return GroupObservations(metric=metric), tuple(notes)
    if not rules:
        raise InvalidGateError(f"{metric.key} is not a mean over tasks")
    group = GroupObservations(metric=metric, is_weighted=rules[0].weighted, times=times)
    for task in tasks:
        _check_member(task, seen.get(task.task.name))
    counted = [one for one in seen.values() if one.metric.n_scored]
    return group.with_tasks(counted), tuple(notes)


def _check_member(task: TaskResult, seen: Observations | None) -> None:
    name = task.task.name
    if task.n_selected and not (seen.metric.n_scored if seen else task.sample_len):
        counts = missing_count(task.n_errored, task.n_unscored)
        raise InvalidGateError(f"no document has a score{counts}").of_task(name)
    if seen is not None and seen.metric.labels:
        raise InvalidGateError(NO_GROUP_LABELS).of_task(name)


def pairs_of(gate: Gate, seen: Observations) -> Pairs:
    """The values of both runs, paired."""
    reference, metric = seen.reference, seen.metric
    assert reference is not None
    name, old = reference.baseline, reference.values.get(metric.key)
    if old is not None and gate.reducer:
        old = reduced_reference(gate, metric, reference)
    if old is None:
        hint = suggestion(metric.key, reference.values)
        raise InvalidGateError(f"baseline {name!r} has no {metric.key}{hint}")
    new = dict(zip(seen.positions, seen.values, strict=True))
    lost, absent = seen.lost, seen.absent
    if gate.allows_missing:
        new = {index: value for index, value in new.items() if index in old}
        lost, absent = [one for one in lost if one in old], ()
    if not new or metric.how is None:
        raise InvalidGateError(
            f"{metric.key} has no value per document, so nothing can be paired"
        )
    unknown = sorted(one for one in (*new, *lost, *absent) if one not in old)
    if unknown:
        raise InvalidGateError(
            f"{_shown(unknown, seen)} had no score in baseline {name!r}; save it again "
            "from a run without errors"
        )
    excluded = [one for one in seen.excluded if one in old]
    if excluded:
        why = f"{_shown(excluded, seen)} counted in baseline {name!r} but not now"
        raise InvalidGateError(why)
    left = {one: old[one] for one in sorted((*lost, *absent))}
    return Pairs([*new], [old[i] for i in new], [*new.values()], left)


def _shown(positions: Sequence[int], seen: Observations) -> str:
    n, ids = len(positions), seen.ids
    listed = ", ".join(ids[one] for one in positions[:3]) + ", …" * (n > 3)
    return f"{plural(n, 'document')} ({listed})"
