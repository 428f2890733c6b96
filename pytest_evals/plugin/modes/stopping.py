"""``--evals-stop``: tasks whose gates are decided are not read to the end.

Documents of such a task run in an order that is drawn once for a commit and a task, in
waves. Whoever judges looks when a wave is whole and all before it were read: never at
whatever has come back by then. With pytest-xdist each wave is dealt to all workers,
the controller looks, and workers find in a file what they need not run any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.metric import Metric, MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.planning import PAYS, expected_share
from pytest_evals.gates.steps import Steps, steps_of
from pytest_evals.gates.stopping import Watch, in_order, reading_order, wave_size
from pytest_evals.plan import Job
from pytest_evals.plugin.modes.earlier import Earlier
from pytest_evals.plugin.nodes import DocItem
from pytest_evals.reports.environment import commit_of

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.plugin.suite.runs import TaskRun

__all__ = ["Stopping"]

_NAME = "decided"
LOOK_S = 0.2
"""Seconds between two looks of a worker at what was decided."""


class _Watched(NamedTuple):
    """A gate with its steps, the metric that they are of, and what documents were in
    its baseline, if it has one."""

    gate: Gate
    metric: Metric
    steps: Steps
    before: Mapping[int, float]


@dataclass(slots=True, kw_only=True)
class _Reading:
    """A task that may stop: ``order`` has positions in ``run.indices``, ``ranks`` the
    place of each document in that order, and ``waiting`` what has come of waves that
    were not read yet."""

    run: TaskRun
    order: Sequence[int]
    ranks: Mapping[int, int]
    size: int
    gates: Sequence[_Watched]
    watches: list[Watch] = field(default_factory=list)
    waiting: dict[int, Record] = field(default_factory=dict)
    n_read: int = 0


class Stopping:
    """Which tasks may stop, in which order they are read, and what was decided."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing is collected yet."""
        self._session = session
        self._options = session.options
        self._readings: dict[str, _Reading] = {}
        self._found: list[_Reading] | None = None
        self._waves: dict[Job, tuple[str, int]] = {}
        self._decided: set[str] = set()
        self._earlier = Earlier(session)
        self._folder: Path | None = None
        self._looked = 0.0
        self.shares: dict[str, float | None] = {}
        """Task → share of its documents that will be read, by the baseline's scores."""
        self.notes: list[str] = []
        """Why tasks are read to the end."""

    def arrange(self, items: list[pytest.Item]) -> None:
        """Bring the documents of tasks that may stop into their order.

        Args:
            items: All items of the session; the list changes.
        """
        places: dict[str, list[int]] = {}
        for place, item in enumerate(items):
            if isinstance(item, DocItem):
                places.setdefault(item.job.task.name, []).append(place)
        for reading in self._candidates():
            own = places.get(reading.run.task.name, [])
            if len(own) != len(reading.order):
                continue  # its gates are skipped, since documents were deselected
            found = [items[place] for place in own]
            found.sort(key=lambda item: reading.ranks[_index(item)])
            for rank, (place, item) in enumerate(zip(own, found, strict=True)):
                items[place] = item
                assert isinstance(item, DocItem)
                wave = (item.job.task.name, rank // reading.size)
                self._waves[item.job] = wave

    def wave_of(self, job: Job) -> tuple[str, int] | None:
        """The wave of a document; ``None`` if its task is read to the end, as far as
        this process knows."""
        knows = self._session.orders is None
        if knows and job.task.name not in self._readings:
            return None
        return self._waves.get(job)

    def waves(self) -> dict[str, int]:
        """Node id of a task, up to the bracket, to the documents of its waves."""
        return {f"{r.run.nodeid}[": r.size for r in self._candidates()}

    def start(self, ids: Sequence[str], folder: Path | None = None) -> None:
        """Watch the gates, in the process that judges them.

        Args:
            ids: Node ids of all items in the order they run.
            folder: Where workers look for what was decided.
        """
        self._folder = folder
        places = {nodeid: place for place, nodeid in enumerate(ids)}
        for reading in self._candidates():
            run = reading.run
            own = [places.get(f"{run.nodeid}[{run.ids[i]}]", -1) for i in reading.order]
            if -1 in own:
                continue
            if own != sorted(own):
                self._note(run, "another plugin has changed the order of its documents")
                continue
            self._readings[run.task.name] = reading
        n_gates = sum(len(one.gates) for one in self._readings.values())
        for name, reading in list(self._readings.items()):
            if not self._watch(reading, n_gates):
                del self._readings[name]

    def _watch(self, reading: _Reading, n_gates: int) -> bool:
        """Begin to watch a task's gates, unless that would not pay."""
        error = self._options.stop_error / n_gates
        if self._options.stop == "curtail":
            error = 0.0
        n = len(reading.order)
        positions = [reading.run.indices[i] for i in reading.order]
        known = []
        for gate, metric, steps, before in reading.gates:
            old = in_order(before or self._old(reading.run, metric), positions)
            known.append((steps, old))
            reading.watches.append(Watch(gate, steps, n, error=error, old=old))
        share = expected_share(known, reading.size, error)
        self.shares[reading.run.task.name] = share
        if share is not None and share > PAYS:
            self._note(
                reading.run,
                f"stopping would save about {100 * (1 - share):.0f}% of the documents, "
                "by the scores of the baseline",
            )
            return False
        return True

    def _old(self, run: TaskRun, metric: Metric) -> dict[int, float]:
        """Position → value of a metric in the run that this one is compared with."""
        baseline = self._session.baseline
        if baseline is None or run.task.name not in baseline.run.tasks:
            return {}
        found = {}
        for row in baseline.run.rows(run.task.name):
            value = row.get(metric.name)
            if row.get("filter") == metric.filter and isinstance(value, int | float):
                found[int(row["doc_id"])] = float(value)
        return found

    def _candidates(self) -> list[_Reading]:
        """Tasks that may stop, by what every process knows once all is collected."""
        if self._found is None:
            self._found = [*self._look_for()]
        return self._found

    def _look_for(self) -> Iterator[_Reading]:
        known = self._session.known
        commit = commit_of(self._session.config.rootpath)
        around = {
            task.name
            for run in known.groups.values()
            if run.gates
            for task in run.group.tasks()
        }
        for run in known.tasks.values():
            n = len(run.ids)
            if not run.gates or n <= wave_size(n):
                continue
            found = self._watched(run)
            if run.task.name in around:
                found = "a gate of a group is about it"
            if isinstance(found, str):
                if self._session.orders is None:
                    self._note(run, found)
                continue
            seed = self._options.order_seed
            order = reading_order(n, commit, run.task.name, seed)
            ranks = {run.indices[i]: rank for rank, i in enumerate(order)}
            yield _Reading(
                run=run, order=order, ranks=ranks, size=wave_size(n), gates=found
            )

    def _watched(self, run: TaskRun) -> list[_Watched] | str:
        """The gates of a task with their steps; or why one of them has none."""
        found = []
        for gate in run.gates:
            named = [
                metric
                for metric in run.task.metrics
                if metric.name == gate.metric and gate.filter in ("", metric.filter)
            ]
            metric = named[0] if len(named) == 1 else None
            if run.task.exclude is not None:
                return "which documents count is known when they are scored"
            before = self._earlier.values(run, gate, metric)
            steps: Steps | str = _CORRECTED
            if isinstance(before, str):
                steps = before
            elif not self._is_corrected(gate):
                steps = steps_of(gate, metric, len(run.ids), before)
            if isinstance(steps, str) or isinstance(before, str) or metric is None:
                return f"of gate {gate.id!r}, {steps}"
            found.append(_Watched(gate, metric, steps, before))
        return found

    def _is_corrected(self, gate: Gate) -> bool:
        """Whether the full run would correct a red verdict for other gates."""
        gates = [one for run in self._session.known.all() for one in run.gates]
        family = [
            one for one in gates if one.family == gate.family and _counts_noise(one)
        ]
        return bool(gate.family) and _counts_noise(gate) and len(family) > 1

    def _note(self, run: TaskRun, why: str) -> None:
        self.notes.append(f"{run.task.name} is read to the end: {why}")

    def arrived(self, name: str, record: Record) -> None:
        """A document of a task is done; look, if that makes a wave whole."""
        reading = self._readings.get(name)
        if reading is None or name in self._decided:
            return
        reading.waiting[reading.ranks[record.index]] = record
        n = len(reading.order)
        while reading.n_read < n and name not in self._decided:
            wave = range(reading.n_read, min(reading.n_read + reading.size, n))
            if any(rank not in reading.waiting for rank in wave):
                return
            records = [reading.waiting.pop(rank) for rank in wave]
            reading.n_read = wave.stop
            for watch, one in zip(reading.watches, reading.gates, strict=True):
                watch.read(one.metric.key, records)
            self._check(reading)
            if reading.n_read < n and all(w.is_settled for w in reading.watches):
                self._decide(name)

    def _check(self, reading: _Reading) -> None:
        """Documents that are not what they were in a gate's baseline make the gate
        invalid in the end: nothing is decided before."""
        for watch, one in zip(reading.watches, reading.gates, strict=True):
            if one.before and watch.is_settled:
                why = self._earlier.fault(one.gate, one.metric, one.before)
                if why:
                    watch.give_up(why)
                    self._note(reading.run, f"of gate {one.gate.id!r}, {why}")

    def _decide(self, name: str) -> None:
        self._decided.add(name)
        self._session.models.drop(name)
        if self._folder is not None:
            draft = self._folder / f"{_NAME}.tmp"
            draft.write_text("\n".join(sorted(self._decided)), encoding="utf-8")
            draft.rename(self._folder / _NAME)

    def skip_if_decided(self, item: DocItem) -> None:
        """Skip a document that can change no verdict any more."""
        if self._session.orders is not None:
            self._look(Path(self._session.orders.stop).parent / _NAME)
        if item.job.task.name in self._decided:
            item.word = "stopped"
            pytest.skip("the gates of its task are decided")

    def _look(self, path: Path) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        if not path.is_file():
            return
        for name in path.read_text(encoding="utf-8").splitlines():
            if name not in self._decided:
                self._decided.add(name)
                self._session.models.drop(name)

    def verdict(self, gate: Gate, result: TaskResult | GroupResult) -> Verdict | None:
        """What was decided of a gate; ``None`` if it is to be judged as usual."""
        if gate.task not in self._decided or not result.n_missing:
            return None
        reading = self._readings[gate.task]
        for watch, one in zip(reading.watches, reading.gates, strict=True):
            if one.gate == gate:
                promise = 1 - self._options.stop_error
                return watch.verdict(_number(one.metric, result), promise)
        return None


def _index(item: pytest.Item) -> int:
    assert isinstance(item, DocItem)
    return item.job.index


def _counts_noise(gate: Gate) -> bool:
    return gate.over == "population" or gate.flip_rate is not None


_CORRECTED = "its red verdict would be corrected for the other gates of its family"


def _number(metric: Metric, result: TaskResult | GroupResult) -> MetricResult | None:
    return next((one for one in result.metrics if one.key == metric.key), None)
