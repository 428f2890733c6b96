"""Early stopping: which tasks may stop, the order of their documents, and early
verdicts. Independent of the source of responses.

Documents run in waves, in a random order that depends on commit and task only. Gates
are evaluated only when a wave and all earlier ones are complete, because a decision at
completion order would be biased.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Record
from pytest_evals.core.result import AnyResult
from pytest_evals.errors import StoreError
from pytest_evals.gates.decide import family_of
from pytest_evals.gates.early_stopping.steps import (
    PAYS,
    Steps,
    expected_share,
    steps_of,
)
from pytest_evals.gates.early_stopping.watch import (
    Watch,
    in_order,
    reading_order,
    wave_size,
)
from pytest_evals.gates.terms import has_limits
from pytest_evals.reports.files.environment import commit_of
from pytest_evals.run.baselines import Baselines, EarlierOutcomes, control_of
from pytest_evals.run.config import RunConfig
from pytest_evals.run.suite import Suite, TaskRun
from pytest_evals.store.history import EarlierRun


class Watched(NamedTuple):
    """A gate with its steps, and what is known of its documents."""

    gate: Gate
    metric: Metric
    steps: Steps
    before: Mapping[int, float]  # values of the documents in its baseline, if any
    rest: Sequence[float] = ()
    """Values of the benchmark's other documents, if a sample of a complete baseline's
    documents is run: then the whole benchmark's verdict counts."""


@dataclass(slots=True, kw_only=True)
class StoppableTask:
    """A task that may stop."""

    name: str
    order: Sequence[int]  # places in indices, in random order
    indices: Sequence[int]
    ranks: Mapping[int, int]  # position of a document → its place in the random order
    size: int
    gates: Sequence[Watched]
    watches: list[Watch] = field(default_factory=list)
    """One for each gate, once the task is watched."""
    waiting: dict[int, Record] = field(default_factory=dict)
    """Results of later waves, by rank."""
    n_read: int = 0

    @property
    def positions(self) -> list[int]:
        """Positions of the documents, in random order."""
        return [self.indices[place] for place in self.order]


def earlier_values(run: EarlierRun, task: str, metric: Metric) -> dict[int, float]:
    """Position of a document → its value in a stored run."""
    values = {}
    for row in run.all_rows(task):
        value = row.get(metric.key, row.get(metric.name))
        if row.get("filter") == metric.filter and isinstance(value, int | float):
            values[int(row["doc_id"])] = float(value)
    return values


_CORRECTED = "its failure would be corrected for the other gates of its family"


class EarlyStopping:
    """Decides gates early, in the process that judges them."""

    def __init__(
        self,
        config: RunConfig,
        suite: Suite,
        baselines: Baselines,
        compared: EarlierOutcomes | None,
    ) -> None:
        self._suite, self._baselines, self._compared = suite, baselines, compared
        self._error = 0.0 if config.stop == "curtail" else config.stop_error
        self._promise = 1 - config.stop_error
        self._options, self._compare = config.options, config.compare
        self._commit, self._seed = commit_of(config.root), config.order_seed
        self._candidates: list[StoppableTask] | None = None
        self._watched: dict[str, StoppableTask] = {}
        self.notes: list[str] = []  # task → why it runs to the end
        self.decided: set[str] = set()  # names of tasks whose gates are decided
        self.shares: dict[str, float | None] = {}
        """Task → predicted fraction of its documents that will run, by the baseline's
        scores."""

    def note(self, name: str, why: str) -> None:
        """Add the reason why a task runs to the end."""
        self.notes.append(f"{name} runs to the end: {why}")

    def candidates(self) -> list[StoppableTask]:
        """Return the tasks that may stop, determined from the collected suite, so that
        all processes agree."""
        if self._candidates is None:
            self._candidates = [*self._find_candidates()]
        return self._candidates

    def _find_candidates(self) -> Iterator[StoppableTask]:
        judged = {gate.task for run in self._suite.all() for gate in run.gates}
        groups = [run.group for run in self._suite.groups.values()]
        around = {t.name for g in groups if g.name in judged for t in g.tasks()}
        for run in self._suite.tasks.values():
            n, name = len(run.indices), run.task.name
            if not run.gates or n <= wave_size(n):
                continue
            gates = self._gates_of(run)
            if name in around:
                gates = "a gate of a group includes it"
            if isinstance(gates, str):
                self.note(name, gates)
                continue
            order = reading_order(n, self._commit, name, self._seed)
            yield StoppableTask(
                name=name,
                order=order,
                indices=run.indices,
                ranks={run.indices[place]: rank for rank, place in enumerate(order)},
                size=wave_size(n),
                gates=gates,
            )

    def _gates_of(self, run: TaskRun) -> list[Watched] | str:
        candidates = []
        for gate in run.gates:
            named = [
                metric
                for metric in run.task.metrics
                if metric.name == gate.metric and gate.filter in ("", metric.filter)
            ]
            metric = named[0] if len(named) == 1 else None
            if run.task.exclude is not None:
                return "excluded documents are known only after scoring"
            control = gate.baseline
            if not control and gate.over == "run" and self._options.get("sample"):
                control = control_of(self._suite, self._compare)
            before = self._before(run, control, metric)
            steps: Steps | str = _CORRECTED
            if isinstance(before, str):
                steps = before
            elif not self._is_corrected(gate):
                n = len(before) or len(run.indices)
                steps = steps_of(gate, metric, n, before)
            if isinstance(steps, str) or isinstance(before, str) or metric is None:
                return f"of gate {gate.id!r}, {steps}"
            here = {index: before[index] for index in run.indices if index in before}
            rest = [one for index, one in before.items() if index not in here]
            if not gate.baseline:
                gate = replace(gate, control=control)
            candidates.append(Watched(gate, metric, steps, here, rest))
        return candidates

    def _is_corrected(self, gate: Gate) -> bool:
        """Whether the full run would correct a failure for other gates."""
        family_key = family_of(gate)
        gates = (one for run in self._suite.all() for one in run.gates)
        family = [
            one for one in gates if family_of(one) == family_key and has_limits(one)
        ]
        return family_key is not None and has_limits(gate) and len(family) > 1

    def _before(
        self, run: TaskRun, control: str, metric: Metric | None
    ) -> Mapping[int, float] | str:
        """Return the values of documents in a baseline, by position in the dataset,
        empty without one; or the reason why they are unknown."""
        if not control or metric is None:
            return {}
        baseline = self._baselines.run(control)
        if isinstance(baseline, str):
            return baseline
        try:
            values = earlier_values(baseline, run.task.name, metric)
        except StoreError as error:
            return str(error)
        is_known = values.keys() >= {*run.indices}
        if not is_known or (
            len(values) > len(run.indices) and not self._options.get("sample")
        ):
            return f"the baseline {control} has other documents"
        return values

    def watch(self, tasks: Sequence[StoppableTask]) -> None:
        """Watch the tasks with random order of documents, if that saves some."""
        n_gates = sum(len(one.gates) for one in tasks)
        for task in tasks:
            if self._pays(task, self._error / max(n_gates, 1)):
                self._watched[task.name] = task

    def watched(self, name: str) -> StoppableTask | None:
        """Return a task that may stop; ``None`` for one that runs to the end."""
        return self._watched.get(name)

    def _pays(self, task: StoppableTask, error: float) -> bool:
        n, positions, past = len(task.order), task.positions, []
        for gate, metric, steps, before, rest in task.gates:
            old = in_order(before or self._old(task.name, metric), positions)
            old = old if old is None else [*old, *rest]
            past.append((steps, old))
            whole = n + len(rest)
            task.watches.append(Watch(gate, steps, whole, error=error, old=old))
        share = expected_share(past, task.size, error, n)
        self.shares[task.name] = share
        if share is None or share <= PAYS:
            return True
        self.note(
            task.name,
            f"stopping would save about {100 * (1 - share):.0f}% of the documents, "
            "by the scores of the baseline",
        )
        return False

    def arrived(self, name: str, record: Record) -> bool:
        """Add a finished document; evaluate the gates if that completes a wave.

        Returns:
            Whether this decides the gates of the task.
        """
        task = self._watched.get(name)
        if task is None or name in self.decided:
            return False
        task.waiting[task.ranks[record.index]] = record
        n = len(task.order)
        while task.n_read < n:
            wave = range(task.n_read, min(task.n_read + task.size, n))
            if any(rank not in task.waiting for rank in wave):
                return False
            records = [task.waiting.pop(rank) for rank in wave]
            task.n_read = wave.stop
            for watch, one in zip(task.watches, task.gates, strict=True):
                watch.read(one.metric.key, records)
            self._check(task)
            if task.n_read < n and all(w.outcome for w in task.watches):
                self.decided.add(name)
                return True
        return False

    def _check(self, task: StoppableTask) -> None:
        """If documents differ from those in a gate's baseline, the gate becomes invalid
        at the end, so nothing is decided early."""
        for watch, one in zip(task.watches, task.gates, strict=True):
            if one.before and watch.outcome:
                why = self._fault(one)
                if why:
                    watch.give_up(why)
                    self.note(task.name, f"of gate {one.gate.id!r}, {why}")

    def _fault(self, one: Watched) -> str:
        """Why finished documents cannot be compared with the baseline, or ""."""
        name = one.gate.baseline or one.gate.control
        reference = self._baselines.find(name, one.gate.task)
        values = reference.values.get(one.metric.key, {})
        moved = any(one.before.get(index) != value for index, value in values.items())
        if reference.overlap is not None:
            return "documents differ from those of the baseline"
        return reference.fault or (
            "its documents have other positions" if moved else ""
        )

    def verdict(self, gate: Gate, result: AnyResult) -> Verdict | None:
        """The early verdict of a gate; ``None`` if it is judged at the end."""
        if gate.task not in self.decided or not result.n_missing:
            return None
        task = self._watched[gate.task]
        for watch, one in zip(task.watches, task.gates, strict=True):
            if one.gate.id == gate.id:
                key = one.metric.key
                number = next((x for x in result.metrics if x.key == key), None)
                return watch.verdict(number, self._promise)
        return None

    def _old(self, task: str, metric: Metric) -> Mapping[int, float]:
        """Position → value of a metric in the run that this one is compared with."""
        run = self._compared.run if self._compared is not None else None
        has_task = run is not None and task in run.tasks
        return earlier_values(run, task, metric) if run and has_task else {}
