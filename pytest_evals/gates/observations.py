"""The documents of a gate as columns: positions, values and clusters of those with a
value of its metric, and the documents without one. The estimates read nothing else.

Baseline gates judge only the documents that the baseline has with equal content.
Several answers to a document are reduced to one value: gates count documents, not
answers, because answers to one document are correlated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import MIN_OVERLAP, Find, Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import suggestion
from pytest_evals.gates.check import NO_GROUP_LABELS
from pytest_evals.gates.formatting import missing_count
from pytest_evals.gates.reducers import reduced
from pytest_evals.gates.terms import InvalidGateError, Pairs, has_limits
from pytest_evals.stats.averages import mean, mean_stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The documents of a task, as a gate on one metric counts them.

    Args:
        task: Name of the task.
        metric: The metric over these documents.
        size: Largest number of documents of any metric, which weights the tasks of a
            group.
        positions: Documents with a value.
        values: Their values.
        scores: Their scores; none if they contain only the values.
        lost: Documents that were run and have no value.
        absent: Scored documents without this metric.
        excluded: Documents that count in no metric.
        labels: Cluster of each document, by position; missing ones are absent.
        reference: The task in the baseline.
        result: The task's result; ``None`` if the values are from elsewhere.
    """

    task: str
    metric: MetricResult
    size: int
    positions: Sequence[int]
    values: Sequence[Any]
    scores: Sequence[Score] = ()
    lost: Sequence[int] = ()
    absent: Sequence[int] = ()
    excluded: Sequence[int] = ()
    labels: Mapping[int, str] | Sequence[str] = field(default_factory=dict)
    reference: Reference | None = None
    result: TaskResult | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """Smallest and largest possible value of a document, if known."""
        return self.metric.how.known_limits if self.metric.how is not None else None

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
        """The cluster of each of these documents.

        Args:
            name: Field of the rows; empty for independent documents, which gives
                ``None``.

        Raises:
            InvalidGateError: A document has no such field, or all documents have the
                same value.
        """
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
                raise InvalidGateError(
                    f"document {self.ids.get(at, at)!r} has {gate.metric} {value:g}"
                    f"{where}, outside of the gate's range [{low:g}, {high:g}]"
                )

    def ways(self) -> Iterator[frozenset[int]]:
        """Yield which of the documents without a value get the highest one, in all ways
        that differ for a gate: documents of one cluster and one value in the baseline
        are alike."""
        old = self.reference.values.get(self.metric.key, {}) if self.reference else {}
        alike: dict[object, list[int]] = {}
        for i in range(self.metric.n_lost):
            at = self.lost[i] if self.lost else -1
            alike.setdefault((old.get(at), self._label(at)), []).append(i)
        for counts in product(*(range(len(same) + 1) for same in alike.values())):
            pairs = zip(alike.values(), counts, strict=True)
            yield frozenset(i for same, n in pairs for i in same[:n])

    def _label(self, at: int) -> str | None:
        if isinstance(self.labels, Mapping):
            return self.labels.get(at)
        return self.labels[at] if self.labels else None

    def completed(
        self, high: Collection[int], ends: tuple[float, float] | None
    ) -> Observations:
        """The task with a value for each document.

        Args:
            high: Which of the documents without one get the highest value, counted from
                0; the others get the lowest.
            ends: These values, ``None`` if they are unknown.

        Raises:
            InvalidGateError: They are.
        """
        metric, n_lost = self.metric, self.metric.n_lost
        if not n_lost:
            return self
        labelled = metric.how is not None and metric.how.labels is not None
        if ends is None or not all(map(math.isfinite, ends)) or labelled:
            raise InvalidGateError(f"the range of {metric.key} is unknown")
        assert metric.estimate is not None
        values = [ends[i in high] for i in range(n_lost)]
        n = metric.n_scored + n_lost
        total = metric.total if ends == (0, 1) else None
        number = (metric.estimate.value * metric.n_scored + math.fsum(values)) / n
        whole = replace(
            metric,
            estimate=replace(metric.estimate, value=number),
            n_scored=n,
            n_errored=0,
            n_unscored=0,
            total=None if total is None else total + len(high),
        )
        changed = replace(self, metric=whole, size=max(self.size, n))
        if not self.values:  # the metric is not computed from values of documents
            return changed
        added: list[Score] = []
        if self.scores:
            n_repeats = len(self.scores[0].repeats)
            added = [Score(value=one, repeats=(one,) * n_repeats) for one in values]
        # In the order of the documents: resampling depends on it.
        every = [*self.positions, *self.lost]
        order = sorted(range(len(every)), key=every.__getitem__)
        columns = [*self.values, *values], [*self.scores, *added]
        return replace(
            changed,
            positions=[every[i] for i in order],
            values=[columns[0][i] for i in order],
            scores=[columns[1][i] for i in order] if added else (),
            lost=(),
        )


class Member(NamedTuple):
    """A task of a group. ``weight``: all weights add up to 1."""

    seen: Observations
    weight: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservations:
    """The documents of a group.

    Args:
        metric: The group's metric.
        members: Its tasks, none if the gate needs only the group's number.
        is_weighted: Whether tasks are weighted by their documents.
        times: Task → how often the group includes it.
    """

    metric: MetricResult
    members: tuple[Member, ...] = ()
    is_weighted: bool = True
    times: Mapping[str, int] = field(default_factory=dict)

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


def observe(
    gate: Gate, metric: MetricResult, result: TaskResult | GroupResult, find: Find
) -> tuple[Observations | GroupObservations, tuple[str, ...]]:
    """The documents of a gate on a metric, and notes about documents that do not count.

    Raises:
        InvalidGateError: The gate cannot be judged on them; skipped if this run becomes
            the baseline, or if the task is new.
    """
    if isinstance(result, GroupResult):
        return _of_group(gate, metric, result, find)
    if gate.baseline:
        result, reference, notes = shared_records(gate, result, find)
        return _of_task(gate, metric, result, reference), notes
    control = find(gate.control, gate.task) if gate.control else None
    return _of_task(gate, metric, result, control), ()


def shared_records(
    gate: Gate, result: TaskResult, find: Find
) -> tuple[TaskResult, Reference, tuple[str, ...]]:
    """The documents that the baseline has with equal content, and notes about the
    others.

    Raises:
        InvalidGateError: The runs are not comparable or share too few documents.
    """
    reference = find(gate.baseline, result.task.name)
    fault, overlap, name = reference.fault, reference.overlap, reference.baseline
    if not fault and overlap is not None:
        least = MIN_OVERLAP if gate.min_overlap is None else gate.min_overlap
        if why := overlap.fault(least):
            fault = f"baseline {name!r} is not comparable: {why}"
    if fault and reference.is_replaced:
        why = f"this run becomes the baseline, so it is not compared: {fault}"
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
    key = metric.name, metric.filter
    if key in result.columns:
        return prepared(gate, _of_columns(metric, result, reference))
    scored: dict[int, Score] = {}
    lost, absent, excluded = [], [], []
    for record in result.records:
        score = next(
            (one for one in record.scores if (one.metric, one.filter) == key), None
        )
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
        size = max((_n_scored(one, result) for one in result.metrics), default=0)
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
    reduced.

    Raises:
        InvalidGateError: A value is outside of the range, or cannot be reduced.
    """
    seen = _with_range(gate, seen)
    return _reduced_task(gate, seen) if gate.reducer and seen.values else seen


def _n_scored(metric: MetricResult, result: TaskResult) -> int:
    return sum(
        one.key == metric.key and not one.unscored
        for record in result.records
        if not (record.error or record.excluded)
        for one in record.scores
    )


def labels_in(name: str, records: Sequence[Record]) -> Mapping[int, str]:
    """Position of a document → its cluster. ``name``: the field of the rows."""
    if not name:
        return {}
    return {one.index: one.labels[name] for one in records if name in one.labels}


def _with_range(gate: Gate, seen: Observations) -> Observations:
    """The documents with the range that a gate declares for its metric."""
    if gate.range is None:
        return seen
    how, estimate = seen.metric.how, seen.metric.estimate
    if how is not None:
        seen.check_range(gate, dict(zip(seen.positions, seen.values, strict=True)))
        metric = replace(seen.metric, how=replace(how, limits=gate.range))
    else:  # a number of a user's hook, without values of documents
        ranged = estimate and replace(estimate, range=gate.range)
        metric = replace(seen.metric, estimate=ranged)
    return replace(seen, metric=metric)


def _of_group(
    gate: Gate, metric: MetricResult, result: GroupResult, find: Find
) -> tuple[GroupObservations, tuple[str, ...]]:
    """The tasks that have the metric, each once. If a group includes a task several
    times, its weight is multiplied accordingly.

    Raises:
        InvalidGateError: The metric is not a mean over tasks, a task was run without a
            single score, or human labels correct the metric of a task.
    """
    tasks, notes = [*result.tasks], dict[str, None]()
    references: dict[str, Reference] = {}
    if gate.baseline:
        references = {t.task.name: find(gate.baseline, t.task.name) for t in tasks}
        known = [one for one in tasks if not references[one.task.name].is_new]
        tasks = known or tasks
    times = Counter(one.task.name for one in tasks)
    seen: dict[str, Observations] = {}
    for task in {one.task.name: one for one in tasks}.values():
        name = task.task.name
        try:
            own, about = _task_of_group(gate, metric, task, find)
        except InvalidGateError as error:
            raise error.of_task(name) from error
        seen |= {name: own} if own is not None else {}
        notes |= dict.fromkeys(f"{name}: {note}" for note in about)
    new = [name for name, one in references.items() if one.is_new]
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


def _task_of_group(
    gate: Gate, metric: MetricResult, task: TaskResult, find: Find
) -> tuple[Observations | None, tuple[str, ...]]:
    own = next((one for one in task.metrics if one.key == metric.key), None)
    reference: Reference | None = None
    notes: tuple[str, ...] = ()
    if gate.baseline:
        task, reference, notes = shared_records(gate, task, find)
    elif gate.control:
        reference = find(gate.control, task.task.name)
    seen = None if own is None else _of_task(gate, own, task, reference)
    return seen, notes


def _check_member(task: TaskResult, seen: Observations | None) -> None:
    name = task.task.name
    if task.n_selected and not (seen.metric.n_scored if seen else task.sample_len):
        counts = missing_count(task.n_errored, task.n_unscored)
        raise InvalidGateError(f"no document has a score{counts}").of_task(name)
    if seen is not None and seen.metric.how is not None and seen.metric.how.labels:
        raise InvalidGateError(NO_GROUP_LABELS).of_task(name)


def pairs_of(gate: Gate, seen: Observations) -> Pairs:
    """The values of both runs, paired.

    Raises:
        InvalidGateError: Their documents differ, or the list is empty.
    """
    reference, metric = seen.reference, seen.metric
    assert reference is not None
    name, old = reference.baseline, reference.values.get(metric.key)
    if old is not None and gate.reducer:
        old = _reduced_reference(gate, metric, reference)
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
    return f"{n} document{'s' * (n > 1)} ({listed})"


def _reduced_task(gate: Gate, seen: Observations) -> Observations:
    """The documents with their answers reduced, and the metric as their mean.

    Raises:
        InvalidGateError: Answers cannot be scored one by one, or are copies.
    """
    metric, scores = seen.metric, seen.scores
    if len(scores) > 1 and all(score.is_copied for score in scores):
        n = len(scores[0].repeats)
        raise InvalidGateError(
            f"all {n} answers to each document are identical although the "
            "temperature is above 0, so they are copies and not independent"
        )
    pairs = zip(seen.positions, scores, strict=True)
    values = [_reduced(gate, seen, at, score) for at, score in pairs]
    changed = replace(
        metric,
        estimate=Estimate(mean(values), mean_stderr(values), "analytic"),
        total=sum(map(int, values)) if {*values} <= {0, 1} else None,
        how=Metric(
            name=metric.name,
            filter=metric.filter,
            aggregate=lambda given: Estimate(mean(given), mean_stderr(given)),
            higher_is_better=metric.higher_is_better,
            is_mean=True,
            limits=seen.limits,
        ),
    )
    return replace(seen, metric=changed, values=values)


def _reduced(gate: Gate, seen: Observations, at: int, score: Score) -> float:
    if not score.repeats:
        raise InvalidGateError(
            f"reducer {gate.reducer!r} needs the value of each answer, and document "
            f"{seen.ids[at]!r} has none: the task has one answer, or its filters "
            "combine several answers"
        )
    if not all(isinstance(value, (int, float)) for value in score.repeats):
        raise InvalidGateError(f"{seen.metric.key} has no numbers to reduce")
    try:
        return reduced(gate.reducer, score.repeats, score.repeat_answers)
    except ValueError as error:
        raise InvalidGateError(str(error)) from error


def _reduced_reference(
    gate: Gate, metric: MetricResult, reference: Reference
) -> dict[int, float]:
    """Position of a document to its reduced value in a baseline.

    Raises:
        InvalidGateError: The baseline has no repeated answers, or they cannot be
            reduced.
    """
    kept = reference.repeats.get(metric.key)
    name = reference.baseline
    if not kept:
        fix = reference.fix or (
            f"a run with this gate and --evals-save-baseline={name} does, where "
            "answers are not copies"
        )
        raise InvalidGateError(
            f"baseline {name!r} has not kept the value of each answer; {fix}"
        )
    try:
        return {
            at: reduced(gate.reducer, answers.values, answers.texts)
            for at, answers in kept.items()
        }
    except ValueError as error:
        raise InvalidGateError(f"in baseline {name!r}, {error}") from error


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
        if score.metric == metric.name and score.filter == metric.filter
        if not score.unscored
    ]
    if not counted or not all(counted):
        return ""
    n = len(counted)
    documents = "the only document" if n == 1 else f"all {n:,} documents"
    return (
        f"in {documents} several choices are equally likely, so that the first of them "
        "was selected: the log-probabilities of the model say nothing"
    )
