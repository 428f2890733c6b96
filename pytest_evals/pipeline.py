"""The flow on one page, without pytest: ask, answer, score, summarise, judge.

The first two are those of :mod:`pytest_evals.plan` and :mod:`pytest_evals.answering`.
Nothing here knows a dialect, a kind of model or a report.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_evals.answering import answer
from pytest_evals.core.group import Group
from pytest_evals.core.record import Record
from pytest_evals.core.request import Model
from pytest_evals.core.result import RunResult
from pytest_evals.core.score import Score
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.errors import DocumentError, Problem, TaskFileError
from pytest_evals.gates.families import corrected
from pytest_evals.gates.judge import judge
from pytest_evals.plan import Job, Plan, ask
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise

__all__ = ["Job", "Plan", "answer", "ask", "evaluate", "score"]


def score(record: Record, task: Task) -> Record:
    """The record with its scores; or why it has none."""
    if record.error:
        return record
    scores: tuple[Score, ...] = ()
    error = ""
    try:
        scores = tuple(task.score(record))
    except DocumentError as problem:
        error = str(problem)
    scored = Record(
        task=record.task,
        index=record.index,
        doc=record.doc,
        requests=record.requests,
        responses=record.responses,
        turns=record.turns,
        scores=scores,
        error=error,
    )
    if task.exclude is None or error:
        return scored
    try:
        return replace(scored, excluded=task.exclude(scored))
    except DocumentError as problem:
        return replace(scored, error=str(problem))


def evaluate(
    paths: Sequence[Path],
    model: Model,
    options: TaskOptions | None = None,
    model_info: Mapping[str, object] | None = None,
) -> RunResult:
    """Run task files without pytest: the same numbers, no items and no exit code.

    Args:
        paths: Task files, and task modules of lighteval's.
        model: Whatever answers requests.
        options: What to change in every task.
        model_info: What to say of the model in results files.

    Raises:
        TaskFileError: A file cannot be used.
    """
    from pytest_evals.frontends.lighteval.tasks import load_tasks as load_module
    from pytest_evals.frontends.lm_eval import load_tasks as load_file

    started, clock = time.time(), time.perf_counter()
    options = options or TaskOptions()
    found = [
        one
        for path in paths
        for one in (load_module if path.suffix == ".py" else load_file)(path, options)
    ]
    tasks = _tasks_of(found)
    jobs = [
        Job(task, i) for task in tasks if task.rows.ids() for i in task.rows.indices()
    ]
    plan = Plan(jobs)
    records: dict[str, list[Record]] = {task.name: [] for task in tasks}
    for job in jobs:
        records[job.task.name].append(score(plan.take(job, model), job.task))
    results = {
        task.name: summarise(task, records[task.name], len(task.rows.ids()))
        for task in tasks
    }
    groups = {
        group.name: summarise_group(group, results)
        for one in found
        if isinstance(one, Group)
        for group in one.groups()
    }
    verdicts = [
        *(judge(gate, one) for one in results.values() for gate in one.task.gates),
        *(judge(gate, one) for one in groups.values() for gate in one.group.gates),
    ]
    return RunResult(
        model=model.name,
        model_info=dict(model_info or {}),
        tasks=tuple(results.values()),
        groups=tuple(groups.values()),
        verdicts=tuple(corrected(verdicts)),
        started=started,
        elapsed_s=time.perf_counter() - clock,
        model_s=plan.model_s,
        n_requests=plan.n_requests,
    )


def _tasks_of(found: Iterable[Task | Group]) -> list[Task]:
    """All tasks, each once.

    Raises:
        TaskFileError: Two tasks have the same name and are not the same.
    """
    tasks: dict[str, Task] = {}
    for one in found:
        for task in one.tasks() if isinstance(one, Group) else (one,):
            first = tasks.setdefault(task.name, task)
            if first.config != task.config:
                what = f"there is another task called {task.name!r}, at {first.source}"
                raise TaskFileError([Problem(what, task.source, "run one of them")])
    return list(tasks.values())
