"""Score answered documents, keep their records, and compute the metrics of tasks and
groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest_evals.core.doc import Doc, WatchedRow
from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.record import Record, Score, Status, slim
from pytest_evals.core.request import Loglikelihood, Request
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError
from pytest_evals.reports.files.samples import Sample, sample_of
from pytest_evals.run.run_writer import RunWriter
from pytest_evals.run.suite import Suite, TaskRun
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise
from pytest_evals.scorers.user_code import UserCode
from pytest_evals.store.history import EarlierRun

EXAMPLES = 3
"""Wrong documents of a task that are kept completely, for the message of a failed
gate."""


def score(record: Record, task: Task) -> Record:
    """Return the record with its scores, or with an error."""
    if record.error:
        return record
    result = _scored(record, task)
    if isinstance(record.doc.row, WatchedRow):
        record.doc.row.end_of_scoring()
    return result


def _scored(record: Record, task: Task) -> Record:
    scores: tuple[Score, ...] = ()
    error = ""
    try:
        scores = tuple(task.score(record))
        if scores and _is_tied(record, task.repeats):
            scores = tuple(
                one if one.correct is None else replace(one, is_tied=True)
                for one in scores
            )
    except DocumentError as problem:
        error = str(problem)
    scored = Record(
        task=record.task,
        index=record.index,
        doc=record.doc,
        requests=record.requests,
        responses=record.responses,
        exchanges=record.exchanges,
        scores=scores,
        error=error,
    )
    if task.exclude is None or error:
        return scored
    try:
        return replace(scored, excluded=task.exclude(scored))
    except DocumentError as problem:
        return replace(scored, error=str(problem))


def _is_tied(record: Record, repeats: int) -> bool:
    """Whether the best choice of a document is not unique by its log-probabilities,
    before a metric normalizes them."""
    if record.requests:
        if not isinstance(record.requests[0], Loglikelihood):
            return False
        pairs = [*zip(record.requests, record.responses, strict=True)]
    else:
        pairs = [(one.request, one.response) for one in record.exchanges]
    n = len(record.doc.choices)
    best, found = -math.inf, set[Request]()
    for request, response in pairs[::repeats][: n if n > 1 else None]:
        if not isinstance(request, Loglikelihood) or response.logprob is None:
            return False
        if response.logprob > best:
            best, found = response.logprob, set()
        if response.logprob == best:
            found.add(request)
    return len(found) > 1


def scored(hook: Any, record: Record, task: Task) -> Record:
    """The record with the scores of a hook ``pytest_evals_score``, or of its task if
    the hook returns ``None``."""

    def by_hook(one: Record) -> tuple[Score, ...]:
        with UserCode("pytest_evals_score"):
            scores = hook(record=one, task=task)
        return task.score(one) if scores is None else tuple(scores)

    return score(record, replace(task, score=by_hook))


class Records:
    """Keeps each record once, and writes its sample."""

    def __init__(
        self,
        suite: Suite,
        writer: RunWriter,
        hook: Any,
        *,
        keeps_whole: bool,
        on_record: Callable[[str, Record], None],
        on_task: Callable[[TaskRun], None],
    ) -> None:
        """Create the records of a run.

        Args:
            hook: The hooks of users; metrics that they add are part of results.
            keeps_whole: Whether complete records are kept, with prompts and rows.
            on_record: Called with the name of the task whenever a record is kept.
            on_task: Called when all documents of a task are complete.
        """
        self._suite, self._writer, self._hook = suite, writer, hook
        self._keeps_whole = keeps_whole or bool(
            hook.pytest_evals_metrics.get_hookimpls()
        )
        self._on_record, self._on_task = on_record, on_task

    def to_keep(self, run: TaskRun, record: Record) -> Record:
        """Return the part of a record that is kept once its sample is written."""
        example = record.correct is False and run.n_examples < EXAMPLES
        run.n_examples += example
        return record if example or self._keeps_whole else slim(record)

    def keep(self, run: TaskRun, record: Record, sample: Sample | None) -> None:
        """Keep a record. A document that ran twice, since its worker died or a plugin
        reruns failures, counts once: by its first answer."""
        earlier = run.records.get(record.index)
        if earlier is not None and earlier.status is Status.SCORED:
            return
        if sample is not None:
            again = earlier is not None
            self._writer.add(run.task.name, record.index, sample, replaces=again)
        run.records[record.index] = record
        if any(score.is_tied for score in record.scores):
            run.tied.append(record.doc.id)
        run.result = None
        self._on_record(run.task.name, record)
        if len(run.records) == len(run.ids):
            self._on_task(run)

    def lose(self, nodeid: str, why: str) -> None:
        """Record a document that no worker could finish as an error of its task; ignore
        other items."""
        for run in self._suite.tasks.values():
            start = f"{run.nodeid}["
            if nodeid.startswith(start):
                id_ = nodeid[len(start) : -1]
                index = run.indices[list(run.ids).index(id_)]
                doc = Doc("", [], 0, id=id_, task_name=run.task.name)
                record = Record(task=run.task.name, index=index, doc=doc, error=why)
                self.keep(run, record, sample_of(record, run.task))

    def n_kept(self) -> int:
        """Documents that were scored so far."""
        return sum(len(run.records) for run in self._suite.tasks.values())

    def samples(self) -> EarlierRun | None:
        """Return the documents that were written so far; ``None`` if none were."""
        self._writer.flush()
        if self._writer.path is None or self._writer.error:
            return None
        files = {"sample_files": self._writer.files}
        return EarlierRun(path=self._writer.path, results=files)

    def result(self, name: str) -> TaskResult:
        """Return a task's metrics over the documents that were run so far."""
        run = self._suite.tasks[name]
        if run.result is None:
            result = summarise(run.task, [*run.records.values()], len(run.ids))
            run.result = _with_added_metrics(self._hook, result)
        return run.result

    def group_result(self, name: str) -> GroupResult:
        """Return a group's metrics over the documents that were run so far."""
        group = self._suite.groups[name].group
        tasks = {task.name: self.result(task.name) for task in group.tasks()}
        return summarise_group(group, tasks)


def _with_added_metrics(hook: Any, result: TaskResult) -> TaskResult:
    """A task with the metrics of ``pytest_evals_metrics``."""
    metrics: list[MetricResult] = []
    for numbers in hook.pytest_evals_metrics(task=result.task, records=result.records):
        for key, value in (numbers or {}).items():
            name, _, filter_ = key.partition(",")
            estimate = value if isinstance(value, Estimate) else Estimate(float(value))
            metrics.append(
                MetricResult(
                    name=name,
                    filter=filter_ or "none",
                    estimate=estimate,
                    n_scored=len(result.records) - result.n_errored,
                    n_errored=result.n_errored,
                    n_missing=result.n_missing,
                )
            )
    return replace(result, metrics=(*result.metrics, *metrics))
