"""The documents of a script's suite on their way, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.gates.documents import Required, required_by, with_required
from pytest_evals.gates.families import corrected
from pytest_evals.gates.judge import judge
from pytest_evals.gates.when import left_out, machine_of
from pytest_evals.reports.files.environment import commit_of
from pytest_evals.reports.files.rendered import rendered
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.baselines import reference, settings_of, side_of, stored_run
from pytest_evals.run.early import Early, Stop
from pytest_evals.run.early_stopping import Known
from pytest_evals.run.inference import Job, Plan
from pytest_evals.run.run_writer import Samples
from pytest_evals.run.scoring import score
from pytest_evals.run.suite import Suite
from pytest_evals.run.user_hooks import prepared, scored, with_added_metrics
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise
from pytest_evals.store.history import EarlierRun

__all__ = ["Beside", "Running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What gates against baselines rest on.

    Args:
        base: The folder that has the baselines.
        judge: What judged answers, as results files have it.
        save: The baseline whose place this run shall take, if any.
        model: The model's name.
        spec: As it was given; empty for a model that was opened.
        info: What the model says of itself.
        run: The stored run that this one is compared with, if any.
        models: A gate's baseline that is a model → what that has answered.
    """

    base: Path
    judge: str
    save: str
    model: str
    spec: str
    info: Mapping[str, Any]
    run: EarlierRun | None
    models: Mapping[str, EarlierRun] = field(default_factory=dict)

    def stored(self, name: str) -> EarlierRun | str:
        """The stored run of a name, or the answers of that model; or why there is
        none."""
        return self.models.get(name) or stored_run(self.base, name, Path.cwd())


class Running:
    """All documents of a suite, answered and scored."""

    def __init__(
        self, suite: Suite, samples: Samples, beside: Beside, hook: Any, stop: Stop
    ) -> None:
        """Nothing is asked yet.

        Args:
            suite: The tasks and groups.
            samples: Where documents are written, and their hashes known.
            beside: What gates against baselines rest on.
            hook: The hooks of plugins.
            stop: When tasks are left.
        """
        self._suite, self._samples, self._beside = suite, samples, beside
        self._hook = hook
        scores = hook.pytest_evals_score
        self._scores = scores if scores.get_hookimpls() else None
        self._records: dict[str, list[Record]] = {one.name: [] for one in suite.tasks}
        self.early = Early(suite.tasks, stop, self._find)
        """In which order documents are asked, and which are not."""
        self.jobs: list[Job] = []
        """The documents in that order, once it is known."""
        self.results: dict[str, TaskResult] = {}
        """Task → its numbers, once all are answered."""
        self.group_results: dict[str, GroupResult] = {}
        """Group → its numbers."""

    def begin(self, seed: int | None) -> None:
        """Bring documents into their order; ``seed`` replaces the suite's commit."""
        known = Known(
            gates=self._gates(),
            groups=self._suite.groups,
            commit=commit_of(Path.cwd()),
            seed=seed,
            stored=self._beside.stored,
        )
        self.early.begin(known, self._beside.run)
        self.jobs = self.early.jobs()

    def answer(self, plan: Plan, model: Model, *, writes: bool, chat: bool) -> None:
        """Ask, score and add up.

        Args:
            plan: The documents, in their order.
            model: What is asked.
            writes: Whether documents go to the disk.
            chat: Whether prompts are chats.
        """
        paired = any(gate.baseline for gate in self._gates())
        names = (task.name for task in self._suite.tasks)
        required = {name: required_by(self._around(name)) for name in names}
        render = model.render if chat else None
        for job in self.jobs:
            name = job.task.name
            if self.early.is_decided(name):
                continue
            record = self._scored(plan.take(job, model), job.task, required[name])
            if writes or paired:
                shown = rendered(record, render) if render else record
                sample = sample_of(shown, job.task)
                take = self._samples.add if writes else self._samples.hashes.add
                take(name, record.index, sample)
            self._records[name].append(record)
            if self.early.arrived(name, record):
                plan.drop(lambda one: self.early.is_decided(one.task.name))
        self._add_up()

    def _add_up(self) -> None:
        for task in self._suite.tasks:
            n = len(task.rows.ids())
            result = summarise(task, self._records[task.name], n)
            self.results[task.name] = with_added_metrics(self._hook, result)
        for group in self._suite.groups:
            self.group_results[group.name] = summarise_group(group, self.results)

    def prepared(self, task: Task, records: list[Record]) -> list[Record]:
        """The records to ask, as plugins have them."""
        return [*prepared(self._hook, task, records)]

    def _scored(self, record: Record, task: Task, required: Required) -> Record:
        """The record with its scores, and with what gates want of it."""
        hook = self._scores
        found = score(record, task) if hook is None else scored(hook, record, task)
        return with_required(found, task, required)

    def _gates(self) -> list[Gate]:
        return self._suite.gates()

    def _around(self, name: str) -> Iterator[Gate]:
        """Gates of a task, and of the groups that hold it."""
        return (g for g in self._gates() if name in self._suite.tasks_of(g.task))

    def _find(self, name: str, task: str) -> Reference:
        """A task in a baseline, beside the documents that are done."""
        beside = self._beside
        found = next(one for one in self._suite.tasks if one.name == task)
        hashes = self._samples.hashes
        settings = settings_of([(found, len(found.rows.ids()))], beside.judge)
        settings["model_info"] = dict(beside.info)
        records = sorted(self._records[task], key=lambda record: record.index)
        now = side_of(found, records, hashes, settings)
        is_replaced = name == beside.save
        return reference(name, beside.stored(name), task, now, is_replaced=is_replaced)

    def verdicts(self) -> list[Verdict]:
        """What becomes of all gates."""
        judged = []
        beside = self._beside
        machine = machine_of(beside.model, beside.spec, beside.info)
        for gate in self._gates():
            result = self.group_results.get(gate.task) or self.results[gate.task]
            if gate.when and (skipped := left_out(gate, machine)):
                judged.append(skipped)
                continue
            early = self.early.verdict(gate, result)
            judged.append(early or judge(gate, result, find=self._find))
        return [*corrected(judged)]
