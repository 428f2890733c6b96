"""Reference models: models that gates name as their baseline.

Each runs the documents of its gates before the tested model, and is closed before that
one is opened, so that only one model needs memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, ModelError, OptionError, SpendCapError
from pytest_evals.gates.documents import Required, with_required
from pytest_evals.models.registry import parse_spec
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.baselines import ReferenceRun, settings_of
from pytest_evals.run.batches import Job
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.error_budget import unsent
from pytest_evals.run.flow import score
from pytest_evals.run.inference import Given, Inference, open_model
from pytest_evals.run.readiness import PlannedRequests, why_refused
from pytest_evals.run.suite import Suite, TaskRun
from pytest_evals.run.user_hooks import prepared
from pytest_evals.store.baselines import without_contents


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDocuments:
    """Documents of a task."""

    task: Task
    indices: Sequence[int]  # positions in its dataset
    hook: Any  # calls the hooks of users
    required: Required  # what its gates need of each document


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceModel:
    """A model that gates name as their baseline. ``gate`` is the first of these
    gates, for messages."""

    spec: str
    gate: Gate
    documents: Sequence[ReferenceDocuments]

    @property
    def shown(self) -> str:
        """Its spec without secrets."""
        return str(parse_spec(self.spec))

    @property
    def jobs(self) -> list[Job]:
        """Its documents, by task."""
        return [Job(one.task, index) for one in self.documents for index in one.indices]

    def prepare(self, task: Task, records: list[Record]) -> list[Record]:
        """The records to send, after users' hooks."""
        return prepared(self._of(task).hook, task, records)

    def scored(self, record: Record, task: Task) -> Record:
        """The answered record with its scores, and the values that gates need."""
        documents = self._of(task)
        hook = documents.hook.pytest_evals_score
        by_hook = hook if hook.get_hookimpls() else None
        return with_required(score(record, task, by_hook), task, documents.required)

    def _of(self, task: Task) -> ReferenceDocuments:
        return next(one for one in self.documents if one.task.name == task.name)

    def fault(self, error: BaseException) -> str:
        """An error of this model, with the file and line of the gate that names it."""
        text = str(error) if isinstance(error, EvalsError) else f"{error!r}"
        gate = self.gate
        return f"{gate.source}: the reference model of gate {gate.id!r}: {text}"


def named_by(
    suite: Suite,
    is_model: Callable[[str], bool],
    hook_of: Callable[[Path], Any],
    *,
    is_whole: Callable[[TaskRun], bool] = lambda run: True,
    spec_of: Callable[[str], str] = str,
) -> list[ReferenceModel]:
    """Return the models that gates name, each once, with the documents of its gates.

    Args:
        is_model: Whether the baseline of a gate is a model.
        hook_of: Maps a file's path to the hooks of users in its folder.
        is_whole: Whether all documents of a task are selected, so that it is judged.
        spec_of: Maps a gate's baseline to the complete spec.
    """
    first: dict[str, Gate] = {}
    documents: dict[str, dict[str, ReferenceDocuments]] = {}
    for gate in [gate for run in suite.all() for gate in run.gates]:
        names = suite.tasks_of(gate.task)
        runs = [run for name, run in suite.tasks.items() if name in names]
        if not is_model(gate.baseline) or not all(map(is_whole, runs)):
            continue
        for run in runs:
            first.setdefault(gate.baseline, gate)
            documents.setdefault(gate.baseline, {})[run.task.name] = ReferenceDocuments(
                task=run.task,
                indices=run.indices,
                hook=hook_of(run.path),
                required=suite.required(run.task.name),
            )
    return [
        ReferenceModel(
            spec=spec_of(name), gate=first[name], documents=tuple(tasks.values())
        )
        for name, tasks in documents.items()
    ]


def answered_by(
    models: Sequence[ReferenceModel],
    answers: CachedModels,
    judge: Given,
    *,
    no_judge: str,
) -> dict[str, ReferenceRun]:
    """Gate's baseline → results of its model.

    Raises:
        OptionError: A spec is invalid, or a library or key is missing.
        ModelError: A model cannot be opened, or failed.
    """
    for model in models:
        planned = PlannedRequests(
            jobs=model.jobs,
            tested=model.spec,
            judge=judge if isinstance(judge, str) else None,
            prepare=model.prepare,
            no_judge=no_judge,
        )
        error = why_refused(planned, answers)
        if error is not None:
            raise OptionError(model.fault(error))
    results = {}
    for model in models:
        try:
            results[model.gate.baseline] = _answered(model, answers, judge)
        except Exception as error:
            kind = OptionError if isinstance(error, OptionError) else ModelError
            raise kind(model.fault(error)) from error
    return results


def _answered(
    model: ReferenceModel, answers: CachedModels, judge: Given
) -> ReferenceRun:
    with ExitStack() as closing:
        inference = Inference(answers)
        opened_model = open_model(answers, model.spec, closing)
        closing.callback(inference.close)
        inference.open(None, opened_model)
        inference.judge_by(None, lambda: open_model(answers, judge, closing))
        jobs = model.jobs
        inference.add_batches(None, jobs, model.prepare)
        rows: dict[str, list[dict[str, Any]]] = {
            one.task.name: [] for one in model.documents
        }
        for job in jobs:
            taken = inference.batches[None].take(job, opened_model)
            if why := unsent(taken):
                raise SpendCapError(why)
            record = model.scored(taken, job.task)
            rows[job.task.name] += (
                without_contents(json.loads(line))
                for line in sample_of(record, job.task).lines
            )
        sizes = [(one.task, len(one.indices)) for one in model.documents]
        name = judge if isinstance(judge, str) else judge.name
        settings = settings_of(sizes, name)
        settings["model_info"] = dict(opened_model.info)
    return ReferenceRun(
        path=Path(), results=settings, model=model.shown, documents=rows
    )
