"""Rows of a run's table: one for each metric and gate, below its task or group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, RunResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import plural
from pytest_evals.gates.terms import figure, figure_beside, shown_change, suffix
from pytest_evals.reports.details.gate import shown_noise
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.overview.table import TableColumn, TableRow

COLUMNS = (
    TableColumn(title="task", rank=4, least=8),
    TableColumn(title="docs", right=True, rank=5),
    TableColumn(title="shots", right=True, rank=1),
    TableColumn(title="filter", rank=2),
    TableColumn(title="metric", rank=4, least=11),
    TableColumn(title="value", right=True),
    TableColumn(title="", rank=3),
    TableColumn(title="change", right=True, rank=3),
    TableColumn(title="gate", rank=6, least=9),
    TableColumn(title="verdict"),
)
_WORDS = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.INVALID: "INVALID",
    Outcome.SKIPPED: "skipped",
    Outcome.PENDING: "pending",
}
COLOURS: dict[Outcome, dict[str, bool]] = {
    Outcome.PASSED: {"green": True},
    Outcome.FAILED: {"red": True},
    Outcome.INCONCLUSIVE: {"yellow": True},
    Outcome.INVALID: {"red": True},
    Outcome.SKIPPED: {"yellow": True},
    Outcome.PENDING: {"yellow": True},
}


def run_columns(result: RunResult) -> list[TableColumn]:
    """The columns; that of changes names the level of its confidence limits, unless it
    differs between gates."""
    levels = {v.gate.ci for v in result.verdicts if v.change and v.interval}
    level = f", {min(levels)}" if len(levels) == 1 else ""
    return [
        replace(one, title=one.title + level) if one.title == "change" else one
        for one in COLUMNS
    ]


def run_rows(result: RunResult) -> Iterator[TableRow]:
    """Yield all rows, groups before their members; one cell for each column."""
    for entry in ordered(result):
        yield from _rows(entry.result, result.verdicts, entry.depth)


def _rows(
    result: TaskResult | GroupResult, verdicts: Sequence[Verdict], depth: int
) -> Iterator[TableRow]:
    """Yield a row for each metric and gate; the first names the task or group."""
    one = result.group if isinstance(result, GroupResult) else result.task
    mine = [verdict for verdict in verdicts if verdict.gate.task == one.name]
    facts: list[tuple[MetricResult | None, Verdict | None]] = []
    for metric in result.metrics:
        judged = [v for v in mine if v.metric and v.metric.key == metric.key]
        # A gate may weigh tasks or reduce answers by its own rule.
        facts += [(v.metric, v) for v in judged] or [(metric, None)]
    keys = {metric.key for metric in result.metrics}
    facts += [(v.metric, v) for v in mine if not v.metric or v.metric.key not in keys]
    claims = {(found and found.key, _claim(v), v.gate.id) for found, v in facts if v}
    alike = Counter(claim[:2] for claim in claims)
    name = " " * depth + "- " * (depth > 0) + one_line(one.alias or one.name)
    shots = _shots(one) if isinstance(one, Task) else ""
    for i, (found, verdict) in enumerate(facts or [(None, None)]):
        yield TableRow(
            (
                "" if i else name,
                _docs(result, found),
                "" if i else shots,
                one_line(_filter(found)),
                one_line(found.name if found else _claimed(verdict)),
                _value(found, verdict),
                shown_noise(found) if verdict is None else _limits(verdict),
                _change(verdict),
                _claim(verdict)
                + _gate_id_suffix(verdict, alike[found and found.key, _claim(verdict)]),
                verdict_word(verdict),
            ),
            COLOURS[verdict.outcome] if verdict else {},
        )


def _shots(task: Task) -> str:
    """Return ``num_fewshot`` of the task file if the task's prompts contain examples,
    else the number in its prompts."""
    metadata = task.config.get("metadata") or {}
    return one_line(str(metadata.get("num_fewshot", task.n_shots)))


def _docs(result: TaskResult | GroupResult, metric: MetricResult | None) -> str:
    """Return ``1172``, ``197/200`` if some lack a score, ``200 of 1172`` under a limit;
    for a group, over the tasks that have the metric."""
    n_scored = metric.n_scored if metric else 0
    is_listed = metric is not None and any(m.key == metric.key for m in result.metrics)
    if metric is not None and is_listed and isinstance(result, GroupResult):
        result = result.having(metric.name, metric.filter)
        # A task that is in the group twice has its documents once.
        n_scored = sum(
            one.n_scored
            for task in result.members
            for one in task.metrics
            if one.key == metric.key
        )
    n = result.n_selected
    text = f"{n_scored}/{n}" if metric and n_scored != n else str(n)
    return f"{text} of {result.n_total}" if n < result.n_total else text


def _filter(metric: MetricResult | None) -> str:
    return "" if metric is None or metric.filter == "none" else metric.filter


def _claimed(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    gate = verdict.gate
    return gate.document_key.replace("_", " ") or gate.metric


def _value(metric: MetricResult | None, verdict: Verdict | None) -> str:
    if metric is None or metric.estimate is None:
        return "-"
    if verdict is None or not verdict.gate.bounds:
        return figure(metric.estimate.value)
    return figure_beside(metric.estimate.value, verdict.gate.bounds[0].value)


def _limits(verdict: Verdict) -> str:
    """Return the compared confidence limits of a number; early ones have their own
    confidence level."""
    if verdict.interval is None or verdict.change is not None or verdict.early:
        return ""
    low, high = map(figure, (verdict.interval.low, verdict.interval.high))
    return f"{verdict.gate.ci} [{low}, {high}]"


def _change(verdict: Verdict | None) -> str:
    """Return the change of a baseline gate with its confidence limits."""
    if verdict is None or verdict.change is None:
        return ""
    change = verdict.change
    ends = [change.difference]
    if verdict.interval is not None and not verdict.early:
        ends += [verdict.interval.low, verdict.interval.high]
    value, *limits = (shown_change(end, change.unit) for end in ends)
    interval = f" [{', '.join(limits)}]" if limits else ""
    return value + interval + suffix(change.unit)


def _claim(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    gate = verdict.gate
    if gate.must_pass:
        n = len(gate.must_pass)
        return plural(n, "document")
    if gate.is_about_documents:
        return str(getattr(gate, gate.document_key))
    if gate.margin is not None:
        name = gate.baseline
        if gate.published is not None:
            name = str(gate.published.value)
        return f"{gate.margin} vs {name}"
    return ", ".join(str(bound) for bound in gate.bounds)


def _gate_id_suffix(verdict: Verdict | None, n_alike: int) -> str:
    """Return the id of a gate if the task has others with the same claim."""
    return f" ({one_line(verdict.gate.id)})" if verdict and n_alike > 1 else ""


def verdict_word(verdict: Verdict | None) -> str:
    """Return the outcome of a gate, in capitals if it failed; empty without one."""
    if verdict is None:
        return ""
    mark = f" ({verdict.mark})" if verdict.mark else ""
    return _WORDS[verdict.outcome] + " (early)" * verdict.early + mark


class TableEntry(NamedTuple):
    """A task or group, and its depth."""

    result: TaskResult | GroupResult
    depth: int


def ordered(run: RunResult) -> Iterator[TableEntry]:
    """Yield all groups and tasks; a task is listed below each of its groups."""
    known: dict[str, TaskResult | GroupResult] = {t.task.name: t for t in run.tasks}
    known |= {one.group.name: one for one in run.groups}
    held = {child.name: None for one in run.groups for child in one.group.children}
    top = [name for name in known if name not in held]
    top.sort(key=lambda name: (not isinstance(known[name], GroupResult), name))
    for name in top:
        yield from _below(name, known, 0)


def _below(
    name: str, known: dict[str, TaskResult | GroupResult], depth: int
) -> Iterator[TableEntry]:
    result = known[name]
    yield TableEntry(result, depth)
    if isinstance(result, GroupResult):
        for child in sorted(c.name for c in result.group.children):
            if child in known:
                yield from _below(child, known, depth + 1)
