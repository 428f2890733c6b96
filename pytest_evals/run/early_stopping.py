"""Early stopping: which tasks of a run may stop, in which order their documents are
read, and which gates are decided. Nothing here knows who asks the documents, or where.

A task is read in waves, in an order that is drawn once for a commit and a task. Gates
are looked at when a wave is whole and all before it were read: never at whatever has
come back by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.group import Group
from pytest_evals.core.metric import Metric, MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import StoreError
from pytest_evals.gates.early_stopping.savings import PAYS, expected_share
from pytest_evals.gates.early_stopping.steps import Steps, steps_of
from pytest_evals.gates.early_stopping.watch import (
    Watch,
    in_order,
    reading_order,
    wave_size,
)
from pytest_evals.gates.estimate.value import has_limits
from pytest_evals.gates.families import family_of
from pytest_evals.store.history import EarlierRun

__all__ = ["Entry", "Known", "Reading", "Stops", "candidates", "earlier_values"]


class Entry(Protocol):
    """A task of a run."""

    @property
    def task(self) -> Task:
        """The task."""
        ...

    @property
    def gates(self) -> Sequence[Gate]:
        """All its gates."""
        ...

    @property
    def indices(self) -> Sequence[int]:
        """Positions of its documents in the dataset, in the order of their ids."""
        ...


class Watched(NamedTuple):
    """A gate with its steps, the metric that they are of, and what documents were in
    its baseline, if it has one."""

    gate: Gate
    metric: Metric
    steps: Steps
    before: Mapping[int, float]


@dataclass(slots=True, kw_only=True)
class Reading:
    """A task that may stop.

    Args:
        name: Of the task.
        order: Places in ``indices``, in the order of reading.
        indices: Positions of all its documents.
        ranks: Position of a document → its place in the order of reading.
        size: Documents of a wave.
        gates: What is to be decided.
        watches: One a gate, once they are watched.
        waiting: What has come of waves that were not read yet, by rank.
        n_read: Documents that were read.
    """

    name: str
    order: Sequence[int]
    indices: Sequence[int]
    ranks: Mapping[int, int]
    size: int
    gates: Sequence[Watched]
    watches: list[Watch] = field(default_factory=list)
    waiting: dict[int, Record] = field(default_factory=dict)
    n_read: int = 0

    @property
    def positions(self) -> list[int]:
        """Positions of the documents, in the order of reading."""
        return [self.indices[place] for place in self.order]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a run before anything is asked.

    Args:
        gates: All gates, of tasks and of groups.
        groups: All groups.
        commit: Of the suite, empty if it has none.
        seed: Replaces the commit.
        stored: The stored run of a name; or why there is none.
    """

    gates: Sequence[Gate]
    groups: Sequence[Group]
    commit: str
    seed: int | None
    stored: Callable[[str], EarlierRun | str]

    def around(self) -> set[str]:
        """Names of tasks that a gate of a group is about."""
        judged = {gate.task for gate in self.gates}
        groups = (group for group in self.groups if group.name in judged)
        return {task.name for group in groups for task in group.tasks()}

    def is_corrected(self, gate: Gate) -> bool:
        """Whether the full run would correct a red verdict for other gates."""
        own = family_of(gate)
        family = [
            one for one in self.gates if family_of(one) == own and has_limits(one)
        ]
        return own is not None and has_limits(gate) and len(family) > 1


def candidates(
    entries: Iterable[Entry], known: Known, note: Callable[[str, str], None]
) -> Iterator[Reading]:
    """The tasks that may stop.

    Args:
        entries: All tasks.
        known: What is known of the run.
        note: Hears of each other task that has gates, with why it is read to the end.
    """
    around = known.around()
    for entry in entries:
        n, name = len(entry.indices), entry.task.name
        if not entry.gates or n <= wave_size(n):
            continue
        found = _watched(entry, known)
        if name in around:
            found = "a gate of a group is about it"
        if isinstance(found, str):
            note(name, found)
            continue
        order = reading_order(n, known.commit, name, known.seed)
        yield Reading(
            name=name,
            order=order,
            indices=entry.indices,
            ranks={entry.indices[place]: rank for rank, place in enumerate(order)},
            size=wave_size(n),
            gates=found,
        )


def _watched(entry: Entry, known: Known) -> list[Watched] | str:
    """The gates of a task with their steps; or why one of them has none."""
    found = []
    for gate in entry.gates:
        named = [
            metric
            for metric in entry.task.metrics
            if metric.name == gate.metric and gate.filter in ("", metric.filter)
        ]
        metric = named[0] if len(named) == 1 else None
        if entry.task.exclude is not None:
            return "which documents count is known when they are scored"
        before = _before(entry, gate, metric, known)
        steps: Steps | str = _CORRECTED
        if isinstance(before, str):
            steps = before
        elif not known.is_corrected(gate):
            steps = steps_of(gate, metric, len(entry.indices), before)
        if isinstance(steps, str) or isinstance(before, str) or metric is None:
            return f"of gate {gate.id!r}, {steps}"
        found.append(Watched(gate, metric, steps, before))
    return found


def _before(
    entry: Entry, gate: Gate, metric: Metric | None, known: Known
) -> Mapping[int, float] | str:
    """What documents were worth in a gate's baseline, by their places in the dataset;
    empty for a gate without one. Or why nothing can be said."""
    if not gate.baseline or metric is None:
        return {}
    baseline = known.stored(gate.baseline)
    if isinstance(baseline, str):
        return baseline
    try:
        found = earlier_values(baseline, entry.task.name, metric)
    except StoreError as error:
        return str(error)
    if set(found) != set(entry.indices):
        return f"the baseline {gate.baseline} has other documents"
    return found


def earlier_values(run: EarlierRun, task: str, metric: Metric) -> dict[int, float]:
    """Position of a document → what it was worth in a stored run.

    Raises:
        StoreError: The run cannot be read.
    """
    found = {}
    for row in run.all_rows(task):
        value = row.get(metric.key, row.get(metric.name))
        if row.get("filter") == metric.filter and isinstance(value, int | float):
            found[int(row["doc_id"])] = float(value)
    return found


_CORRECTED = "its red verdict would be corrected for the other gates of its family"


class Stops:
    """Watches gates, in the process that judges them."""

    def __init__(
        self,
        *,
        error: float,
        promise: float,
        find: Callable[[str, str], Reference],
        note: Callable[[str, str], None],
    ) -> None:
        """Nothing is watched yet.

        Args:
            error: Probability of a verdict that is not the full run's, over all gates;
                0 for verdicts that are certain only.
            promise: The probability of all others, as it is told.
            find: A task in a baseline, beside the documents that are done.
            note: Hears of a task that is read to the end, and why.
        """
        self._error, self._promise = error, promise
        self._find, self._note = find, note
        self._readings: dict[str, Reading] = {}
        self.decided: set[str] = set()
        """Names of tasks whose gates are decided."""
        self.shares: dict[str, float | None] = {}
        """Task → share of its documents that will be read, by the baseline's scores."""

    def watch(self, readings: Sequence[Reading], run: EarlierRun | None) -> None:
        """Begin to watch, where that pays.

        Args:
            readings: Tasks whose documents come in their order.
            run: The stored run that this one is compared with, if any.
        """
        n_gates = sum(len(one.gates) for one in readings)
        for reading in readings:
            if self._pays(reading, run, self._error / max(n_gates, 1)):
                self._readings[reading.name] = reading

    def watches(self, name: str) -> bool:
        """Whether a task may stop."""
        return name in self._readings

    def _pays(self, reading: Reading, run: EarlierRun | None, error: float) -> bool:
        n, positions, known = len(reading.order), reading.positions, []
        for gate, metric, steps, before in reading.gates:
            old = in_order(before or _old(run, reading.name, metric), positions)
            known.append((steps, old))
            reading.watches.append(Watch(gate, steps, n, error=error, old=old))
        share = expected_share(known, reading.size, error)
        self.shares[reading.name] = share
        if share is None or share <= PAYS:
            return True
        self._note(
            reading.name,
            f"stopping would save about {100 * (1 - share):.0f}% of the documents, "
            "by the scores of the baseline",
        )
        return False

    def arrived(self, name: str, record: Record) -> bool:
        """A document of a task is done; look, if that makes a wave whole.

        Returns:
            Whether the gates of the task are decided now, and were not before.
        """
        reading = self._readings.get(name)
        if reading is None or name in self.decided:
            return False
        reading.waiting[reading.ranks[record.index]] = record
        n = len(reading.order)
        while reading.n_read < n:
            wave = range(reading.n_read, min(reading.n_read + reading.size, n))
            if any(rank not in reading.waiting for rank in wave):
                return False
            records = [reading.waiting.pop(rank) for rank in wave]
            reading.n_read = wave.stop
            for watch, one in zip(reading.watches, reading.gates, strict=True):
                watch.read(one.metric.key, records)
            self._check(reading)
            if reading.n_read < n and all(w.is_settled for w in reading.watches):
                self.decided.add(name)
                return True
        return False

    def _check(self, reading: Reading) -> None:
        """Documents that are not what they were in a gate's baseline make the gate
        invalid in the end: nothing is decided before."""
        for watch, one in zip(reading.watches, reading.gates, strict=True):
            if one.before and watch.is_settled:
                why = self._fault(one)
                if why:
                    watch.give_up(why)
                    self._note(reading.name, f"of gate {one.gate.id!r}, {why}")

    def _fault(self, one: Watched) -> str:
        """Why the documents that were run cannot be held against the baseline; empty if
        they can."""
        found = self._find(one.gate.baseline, one.gate.task)
        known = found.values.get(one.metric.key, {})
        moved = any(one.before.get(index) != value for index, value in known.items())
        return found.fault or ("its documents have other places" if moved else "")

    def verdict(self, gate: Gate, result: TaskResult | GroupResult) -> Verdict | None:
        """What was decided of a gate; ``None`` if it is to be judged as usual."""
        if gate.task not in self.decided or not result.n_missing:
            return None
        reading = self._readings[gate.task]
        for watch, one in zip(reading.watches, reading.gates, strict=True):
            if one.gate == gate:
                number = _number(one.metric, result)
                return watch.verdict(number, self._promise)
        return None


def _old(run: EarlierRun | None, task: str, metric: Metric) -> Mapping[int, float]:
    """Position → value of a metric in the run that this one is compared with."""
    has_task = run is not None and task in run.tasks
    return earlier_values(run, task, metric) if run and has_task else {}


def _number(metric: Metric, result: TaskResult | GroupResult) -> MetricResult | None:
    return next((one for one in result.metrics if one.key == metric.key), None)
