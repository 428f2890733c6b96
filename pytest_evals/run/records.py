"""The metrics of tasks and groups, over the records that were kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.run.run_writer import RunWriter
from pytest_evals.run.suite import Suite
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise
from pytest_evals.store.history import EarlierRun


class Records:
    """Adds up the records that were kept."""

    def __init__(self, suite: Suite, writer: RunWriter, hook: Any) -> None:
        """``hook``: the hooks of users; metrics that they add are part of results."""
        self._suite, self._writer, self._hook = suite, writer, hook

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
