"""A run where people look at objects: at a prompt, in a notebook, as a data frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from pytest_evals.errors import MissingExtraError, OptionError, did_you_mean

if TYPE_CHECKING:
    from pytest_evals.core.comparison import Comparison
    from pytest_evals.core.result import GroupResult, RunResult, TaskResult

__all__ = ["Rows", "run_frame", "run_html", "run_text", "task_text"]

Rows = Literal["metrics", "gates", "documents", "changes"]
"""What is a row of a data frame."""

_MOST = 30
"""Metrics, and gates, that are shown."""


def run_text(run: RunResult) -> str:
    """The run on a few lines: numbers, then gates."""
    lines = [f"<RunResult of {run.model}: {_counts(run)}>"]
    judged = _judged(run)
    metrics = [*_metrics(run)]
    width = max((len(f"{m['task']}  {m['metric']}") for m in metrics), default=0)
    for one in metrics[:_MOST]:
        name = f"{one['task']}  {one['metric']}"
        lines.append(f"  {name:<{width}}  {_value(one, judged)}")
    for gate in [*_gates(run)][:_MOST]:
        lines.append(f"  {gate['outcome']}: {gate['task']}: {gate['gate']}")
    if run.comparison is not None:
        lines += [f"  {line}" for line in _compared(run.comparison)]
    n_more = max(0, len(metrics) - _MOST) + max(0, len(run.verdicts) - _MOST)
    return "\n".join([*lines, f"  and {n_more} more"] if n_more else lines)


def run_html(run: RunResult) -> str:
    """Two tables, for notebooks; nothing in them is markup but ours."""
    judged = _judged(run)
    metrics = [
        (m["task"], m["metric"], _value(m, judged), m["n_scored"])
        for m in _metrics(run)
    ]
    gates = [(g["task"], g["gate"], g["outcome"], g["reason"]) for g in _gates(run)]
    parts = [f"<p><b>{escape(run.model)}</b>: {escape(_counts(run))}</p>"]
    parts.append(_table(("task", "metric", "value", "documents"), metrics))
    if gates:
        parts.append(_table(("task", "gate", "outcome", "reason"), gates))
    if run.comparison is not None:
        parts += [f"<p>{escape(line)}</p>" for line in _compared(run.comparison)]
    return "\n".join(parts)


def run_frame(run: RunResult, rows: Rows) -> Any:
    """A ``pandas.DataFrame``.

    Args:
        run: The run.
        rows: What is a row.

    Raises:
        OptionError: There are no such rows.
        MissingExtraError: pandas is not installed.
    """
    known = {
        "metrics": _metrics,
        "gates": _gates,
        "documents": _documents,
        "changes": _changes,
    }
    if rows not in known:
        hint = did_you_mean(str(rows), [*known]) or f"; known: {', '.join(known)}"
        raise OptionError(f"to_pandas() has no rows called {rows!r}{hint}")
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("to_pandas()", "pandas", "pandas") from None
    return pd.DataFrame(list(known[rows](run)))


def task_text(result: TaskResult) -> str:
    """A task on one line."""
    numbers = ", ".join(
        f"{one.key} {_value({'value': one.estimate and one.estimate.value}, {})}"
        for one in result.metrics
    )
    n = len(result.records)
    return f"<TaskResult {result.task.name}: {n} documents; {numbers or 'no metrics'}>"


def _counts(run: RunResult) -> str:
    counts = Counter(verdict.outcome.value for verdict in run.verdicts)
    n_errors = sum(task.n_errored + task.n_unscored for task in run.tasks)
    told = [
        f"{len(run.tasks)} task{'s' * (len(run.tasks) != 1)}",
        f"{sum(len(task.records) for task in run.tasks)} documents",
    ]
    told += [f"{n_errors} of them without a score"] if n_errors else []
    gates = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
    told += [f"gates: {gates}"] if gates else []
    return ", ".join(told) + (f"; {run.partial}" if run.partial else "")


def _metrics(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a metric; of groups, then of tasks."""
    owners: list[tuple[str, TaskResult | GroupResult]] = [
        *((one.group.name, one) for one in run.groups),
        *((one.task.name, one) for one in run.tasks),
    ]
    for name, result in owners:
        for metric in result.metrics:
            estimate = metric.estimate
            yield {
                "task": name,
                "metric": metric.key,
                "value": estimate.value if estimate else None,
                "stderr": estimate.stderr if estimate else None,
                "n_scored": metric.n_scored,
                "n_errored": metric.n_errored,
                "n_unscored": metric.n_unscored,
                "n_missing": metric.n_missing,
                "higher_is_better": metric.higher_is_better,
            }


def _gates(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a gate."""
    for verdict in run.verdicts:
        estimate = verdict.metric.estimate if verdict.metric else None
        yield {
            "task": verdict.gate.task,
            "gate": verdict.gate.text,
            "outcome": verdict.outcome.value,
            "is_red": verdict.is_red,
            "value": estimate.value if estimate else None,
            "low": verdict.interval.low if verdict.interval else None,
            "high": verdict.interval.high if verdict.interval else None,
            "p_value": verdict.p_fails,
            "reason": verdict.reason,
        }


def _documents(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a document; each of its scores is a column."""
    for task in run.tasks:
        for record in task.records:
            answers = [score.answer for score in record.scores if score.answer]
            yield {
                "task": task.task.name,
                "id": record.doc.id,
                "index": record.index,
                "status": record.status.value,
                "correct": record.correct,
                "answer": answers[0] if answers else "",
                "error": record.error,
                **{f"{s.metric},{s.filter}": s.value for s in record.scores},
            }


def _changes(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a document that is right or wrong since the other run."""
    found = run.comparison
    for change, documents in (
        ("worse", found.worse if found else ()),
        ("better", found.better if found else ()),
    ):
        for one in documents:
            yield {
                "task": one.task,
                "id": one.id,
                "change": change,
                "target": one.target,
                "before": one.before,
                "now": one.now,
            }


def _compared(found: Comparison) -> Iterator[str]:
    """The comparison on a few lines."""
    yield (
        f"compared with {found.name}: {found.n_paired} documents, "
        f"{len(found.worse)} worse, {len(found.better)} better"
    )
    yield from (f"not compared: {text}" for text in found.refused)


def _judged(run: RunResult) -> dict[tuple[str, str], str]:
    """Task and key of each metric with a gate → the confidence limits of that gate;
    empty for gates that compare the number."""
    found: dict[tuple[str, str], str] = {}
    for verdict in run.verdicts:
        if verdict.metric is None:
            continue
        interval, limits = verdict.interval, ""
        if interval is not None and verdict.change is None and not verdict.early:
            limits = f", {verdict.gate.ci} [{interval.low:.4g}, {interval.high:.4g}]"
        key = (verdict.gate.task, verdict.metric.key)
        found[key] = found.get(key) or limits
    return found


def _value(row: dict[str, Any], judged: Mapping[tuple[str, str], str]) -> str:
    """A number with its standard error, or with the limits of its gate."""
    if row.get("value") is None:
        return "-"
    key, stderr = (row.get("task", ""), row.get("metric", "")), row.get("stderr")
    noise = "" if stderr is None else f" ± {stderr:.2g}"
    return f"{row['value']:.4g}{judged.get(key, noise)}"


def _table(heading: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    shown = rows[:_MOST]
    lines = ["<table>", _row("th", heading), *(_row("td", row) for row in shown)]
    if len(rows) > _MOST:
        lines.append(_row("td", (f"and {len(rows) - _MOST} more",)))
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: tuple[Any, ...]) -> str:
    return (
        f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
    )
