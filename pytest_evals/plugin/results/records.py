"""The scored records of a session: each is kept once and its sample is written, and
tasks and groups are summed up over those that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record
from pytest_evals.core.slim import slim
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.user_hooks import with_added_metrics
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise

if TYPE_CHECKING:
    import pluggy

    from pytest_evals.core.result import GroupResult, TaskResult
    from pytest_evals.plugin.suite.runs import Runs, TaskRun
    from pytest_evals.reports.files.samples import Sample
    from pytest_evals.run.run_writer import Samples

__all__ = ["Records"]

EXAMPLES = 3
"""Wrong documents of a task that are kept whole, for the message of a failing gate."""


class Records:
    """What has been scored so far."""

    def __init__(self, known: Runs, samples: Samples, hook: pluggy.HookRelay) -> None:
        """Nothing is there yet.

        Args:
            known: The tasks and groups of the session.
            samples: Where samples are written.
            hook: The session's hooks; metrics that they add are part of results.
        """
        self._known, self._samples, self._hook = known, samples, hook
        self._keeps_whole = bool(hook.pytest_evals_metrics.get_hookimpls())
        self.told_of_record: Callable[[str, Record], None] | None = None
        """Called with the name of the task whenever one is kept."""
        self.told_of_task: Callable[[TaskRun], None] | None = None
        """Called when all documents of a task are there."""

    def to_keep(self, run: TaskRun, record: Record) -> Record:
        """As much of a record as will be needed once its sample is written."""
        example = record.correct is False and run.n_examples < EXAMPLES
        run.n_examples += example
        return record if example or self._keeps_whole else slim(record)

    def keep(self, run: TaskRun, record: Record, sample: Sample) -> None:
        """A document that ran twice, because its worker died, counts once."""
        if record.index not in run.records:
            self._samples.add(run.task.name, record.index, sample)
        run.records[record.index] = record
        run.result = None
        if self.told_of_record is not None:
            self.told_of_record(run.task.name, record)
        if self.told_of_task is not None and len(run.records) == len(run.ids):
            self.told_of_task(run)

    def lose(self, nodeid: str, why: str) -> None:
        """A document that no worker could finish is an error of its task; an item that
        is no document is none of ours."""
        for run in self._known.tasks.values():
            start = f"{run.nodeid}["
            if nodeid.startswith(start):
                id_ = nodeid[len(start) : -1]
                index = run.indices[list(run.ids).index(id_)]
                doc = Doc("", [], 0, id=id_, task_name=run.task.name)
                record = Record(task=run.task.name, index=index, doc=doc, error=why)
                self.keep(run, record, sample_of(record, run.task))

    def result(self, name: str) -> TaskResult:
        """A task's metrics over the documents that were run so far."""
        run = self._known.tasks[name]
        if run.result is None:
            result = summarise(run.task, [*run.records.values()], len(run.ids))
            run.result = with_added_metrics(self._hook, result)
        return run.result

    def group_result(self, name: str) -> GroupResult:
        """A group's numbers over the documents that were run so far."""
        group = self._known.groups[name].group
        tasks = {task.name: self.result(task.name) for task in group.tasks()}
        return summarise_group(group, tasks)
