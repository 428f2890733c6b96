"""Tasks of a group and their contribution to its metric, as text."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.formatting import figure
from pytest_evals.reports.escape import one_line

_SHOWN = 5
"""Maximum number of tasks."""


def member_lines(verdict: Verdict, result: GroupResult) -> list[str]:
    """Yield the tasks to inspect first: those with missing documents, then those with
    the worst values."""
    gate = verdict.gate
    rows = sorted(_rows(gate, verdict.metric, result), key=lambda row: row[:2])
    if not rows:
        return []
    n = len(rows)
    heading = "tasks, worst first" + (f" ({_SHOWN} of {n})" if n > _SHOWN else "")
    return ["", f"  {heading}", *(f"    {text}" for _, _, text in rows[:_SHOWN])]


def _rows(
    gate: Gate, found: MetricResult | None, result: GroupResult
) -> Iterator[tuple[int, float, str]]:
    """Yield the negated number of unscored documents; the value, higher is better;
    text."""
    filter_ = found.filter if found else gate.filter
    for task in result.members:
        for metric in task.metrics:
            if metric.name == gate.metric and filter_ in ("", metric.filter):
                value = metric.estimate.value if metric.estimate else 0.0
                better = -value if metric.higher_is_better is False else value
                yield -metric.n_lacking, better, _row(task, metric)


def _row(task: TaskResult, metric: MetricResult) -> str:
    shown = "-" if metric.estimate is None else figure(metric.estimate.value)
    n = task.n_selected
    docs = f"{metric.n_scored} of {n}" if metric.n_scored != n else str(n)
    return f"{one_line(task.task.name)}  {one_line(metric.key)} {shown} over {docs}"
