"""The documents of a script's suite on their way, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.request import Model
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.gates.families import corrected
from pytest_evals.gates.judge import judge
from pytest_evals.gates.wanted import wanted_by, with_facts
from pytest_evals.hooked import prepared, scored, with_added_metrics
from pytest_evals.pipeline import Job, Plan, score
from pytest_evals.recording import Samples
from pytest_evals.references import reference, settings_of, side_of, stored_run
from pytest_evals.reports.rendered import rendered
from pytest_evals.reports.samples import sample_of
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise
from pytest_evals.script.suite import Suite

__all__ = ["Running"]


class Running:
    """All documents of a suite, answered and scored in the order of the dataset."""

    def __init__(
        self,
        suite: Suite,
        samples: Samples,
        info: Mapping[str, Any],
        hook: Any,
        *,
        chat: bool,
    ) -> None:
        """Nothing is asked yet.

        Args:
            suite: The tasks and groups.
            samples: Where documents are written, and their hashes known.
            info: What the model says of itself.
            hook: The hooks of plugins.
            chat: Whether prompts are chats.
        """
        self._suite, self._samples, self._chat, self._info = suite, samples, chat, info
        self._hook = hook
        scores = hook.pytest_evals_score
        self._scores = scores if scores.get_hookimpls() else None
        self._records: dict[str, list[Record]] = {one.name: [] for one in suite.tasks}
        self.jobs = [Job(task, i) for task in suite.tasks for i in task.rows.indices()]
        """The documents, in the order in which they are asked."""
        self.results: dict[str, TaskResult] = {}
        """Task → its numbers, once all are answered."""
        self.group_results: dict[str, GroupResult] = {}
        """Group → its numbers."""

    def answer(self, plan: Plan, model: Model, *, writes: bool) -> None:
        """Ask, score and add up; ``writes`` says whether documents go to the disk."""
        gates = self._gates()
        paired = any(gate.baseline for gate in gates)
        names = (task.name for task in self._suite.tasks)
        wanted = {name: wanted_by(self._around(name)) for name in names}
        render = getattr(model, "render", None) if self._chat else None
        for job in self.jobs:
            task = job.task
            record = self._scored(plan.take(job, model), task)
            record = with_facts(record, task, wanted[task.name])
            if writes or paired:
                sample = sample_of(rendered(record, render) if render else record, task)
                if writes:
                    self._samples.add(task.name, record.index, sample)
                else:
                    self._samples.hashes.add(task.name, record.index, sample)
            self._records[task.name].append(record)
        for task in self._suite.tasks:
            n = len(task.rows.ids())
            result = summarise(task, self._records[task.name], n)
            self.results[task.name] = with_added_metrics(self._hook, result)
        for group in self._suite.groups:
            self.group_results[group.name] = summarise_group(group, self.results)

    def prepared(self, task: Task, records: list[Record]) -> list[Record]:
        """The records to ask, as plugins have them."""
        return [*prepared(self._hook, task, records)]

    def _scored(self, record: Record, task: Task) -> Record:
        if self._scores is None:
            return score(record, task)
        return scored(self._scores, record, task)

    def _gates(self) -> list[Gate]:
        suite = self._suite
        of_tasks = [gate for task in suite.tasks for gate in task.gates]
        return of_tasks + [gate for group in suite.groups for gate in group.gates]

    def _around(self, name: str) -> Iterator[Gate]:
        """Gates of a task, and of the groups that hold it."""
        for gate in self._gates():
            group = next((g for g in self._suite.groups if g.name == gate.task), None)
            inside = group is not None and any(t.name == name for t in group.tasks())
            if gate.task == name or inside:
                yield gate

    def verdicts(self, base: Path, judge_spec: str, save: str) -> list[Verdict]:
        """What becomes of all gates.

        Args:
            base: The folder that has the baselines.
            judge_spec: What judged answers, as results files have it.
            save: The baseline whose place this run shall take, if any.
        """

        def find(name: str, task: str) -> Reference:
            result = self.results[task]
            hashes = self._samples.hashes.of(task)
            settings = settings_of([(result.task, result.n_selected)], judge_spec)
            settings["model_info"] = dict(self._info)
            now = side_of(result.task, self._records[task], hashes, settings)
            run = stored_run(base, name, Path.cwd())
            return reference(name, run, task, now, is_replaced=name == save)

        def result_of(name: str) -> TaskResult | GroupResult:
            return self.group_results.get(name) or self.results[name]

        judged = [judge(one, result_of(one.task), find=find) for one in self._gates()]
        return [*corrected(judged)]
