"""Details of a gate that did not pass: its condition, the result, the distance to the
threshold, the documents to inspect, and the next commands. Never a traceback."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_evals.core.comparison import is_environment
from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.node_names import document_start, gate_name, node_label
from pytest_evals.core.record import Record, Score, Status
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import Place, plural
from pytest_evals.gates.explain import WITHIN_NOISE
from pytest_evals.gates.run_metrics import RUN_METRICS
from pytest_evals.gates.terms import figure
from pytest_evals.reports.details.examples import error_of, example_lines, ids_by_index
from pytest_evals.reports.escape import one_line
from pytest_evals.stats.interval_methods import Proportion

FEW = 5
"""Correct or wrong answers from which on the standard error is shown."""
EXAMPLES = 3
_MARKS = {
    Outcome.FAILED: "E   ",
    Outcome.INVALID: "!   ",
    Outcome.INCONCLUSIVE: "?   ",
    Outcome.SKIPPED: "-   ",
    Outcome.PENDING: "-   ",
    Outcome.PASSED: "    ",
}
_SHOWN = 5
"""Maximum number of tasks, and of documents on one line."""


def gate_lines(
    verdict: Verdict,
    result: TaskResult | GroupResult,
    n_examples: int = EXAMPLES,
    *,
    shows_method: bool = True,
    is_rerunnable: bool = True,
    model: str = "",
) -> list[str]:
    """Yield the text of a verdict; summaries show only the first line.

    Args:
        result: The results that it was judged on.
        n_examples: Maximum number of documents shown of each kind.
        shows_method: Whether inference target and method of the limits are shown.
        is_rerunnable: Whether pytest can run it again; its commands are shown then.
        model: Name of its model in node ids, if several are tested.
    """
    mark = _MARKS[verdict.outcome]
    lines = [headline(verdict), one_line(verdict.gate.source)]
    facts = [mark + fact for fact in _facts(verdict, result)]
    facts += (
        [mark + one_line(verdict.method)] if shows_method and verdict.method else []
    )
    lines += ["", *facts] if facts else []
    if isinstance(result, GroupResult):
        group = result.group
        lines += member_lines(verdict, result)
        command = _again(group.source.path, [_rerun(group.name, verdict, model)])
        return lines + command * is_rerunnable
    ids, start = ids_by_index(result), _start(result.task, model)
    chosen = _chosen(verdict, result, ids) if n_examples else {}
    key = verdict.metric.key if verdict.metric else ""
    for title, records in chosen.items():
        n = len(records)
        heading = title if n <= n_examples else f"{title} ({n_examples} of {n})"
        shown = _examples(records[:n_examples], start, ids, key, verdict.previous)
        lines += ["", f"  {heading}", *shown] if shown else []
    if not is_rerunnable:
        return lines
    first = next((_name(r, start, ids) for rs in chosen.values() for r in rs), "")
    label = node_label(model, result.task.variant)
    whole = _rerun(result.task.node_name, verdict, label)
    names = [whole, *filter(None, (first,))]
    return lines + _again(result.task.source.path, names)


def headline(verdict: Verdict) -> str:
    """Return a verdict on one line, without the name of its gate."""
    reason = one_line(verdict.reason)
    if verdict.outcome is Outcome.INVALID:
        return f"invalid: {reason}"
    if verdict.outcome in (Outcome.SKIPPED, Outcome.PENDING):
        return f"{verdict.outcome.value}: {reason}"
    metric = one_line(verdict.gate.metric)
    text = f"{metric} {reason}" if metric else reason
    return f"{verdict.conclusion}: {text}" if verdict.conclusion else text


def _facts(verdict: Verdict, result: TaskResult | GroupResult) -> Iterator[str]:
    if verdict.outcome is Outcome.INVALID:
        yield (
            "The gate could not be evaluated; this is not a statement about the model."
        )
    elif verdict.outcome is Outcome.FAILED and verdict.n_short:
        n, metric = verdict.n_short, verdict.metric
        message = f"more correct answer{'s' * (n > 1)}"
        if metric is not None and metric.higher_is_better is False:
            message = f"document{'s' * (n > 1)} fewer"
        yield f"{n:,} {message} would have passed."
    is_shown = verdict.interval is not None or WITHIN_NOISE in verdict.reason
    if verdict.metric is not None and not is_shown:
        noise = shown_noise(verdict.metric)
        n = verdict.metric.n_scored
        if noise:
            shown = one_line(verdict.metric.key.removesuffix(",none"))
            yield f"{shown}: {noise} over {plural(n, 'document')}"
    if isinstance(result, GroupResult) and verdict.gate.metric:
        result = result.having(verdict.gate.metric, verdict.gate.filter)
    lacking = {
        "errored": result.n_errored,
        "unscored": result.n_unscored,
        "not run": result.n_missing,
    }
    if any(lacking.values()) or result.n_selected < result.n_total:
        counts = lacking
        metric = verdict.metric  # of the first metric, documents are correct or wrong
        first = result.metrics[0] if result.metrics else metric
        if metric is None or first is None or metric.key == first.key:
            counts = {"correct": result.n_correct, "wrong": result.n_wrong, **lacking}
        numbers = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
        yield "documents: " + "; ".join(filter(None, (numbers, _selected(result))))
    yield from (one_line(note) for note in verdict.notes if not is_environment(note))


def _selected(result: TaskResult | GroupResult) -> str:
    if result.n_selected < result.n_total:
        return f"{result.n_selected} of {result.n_total} were selected."
    return f"{result.n_total} in all."


def _chosen(
    verdict: Verdict, result: TaskResult, ids: Mapping[int, str]
) -> dict[str, list[Record]]:
    """Return the documents to inspect, for this kind of failure."""
    records = result.records
    if verdict.gate.is_about_documents:
        named = {*verdict.documents}
        records = tuple(r for r in records if ids.get(r.index) in named)
    lacking = [r for r in records if r.status is not Status.SCORED]
    groups: dict[str, list[Record]] = {}
    if verdict.outcome is Outcome.INVALID and lacking:
        groups["without a score"] = lacking
    if verdict.change is not None:
        named = {*verdict.documents}
        worse = [r for r in records if ids.get(r.index) in named]
        worse.sort(key=lambda record: not record.requests)
        if worse and verdict.outcome in (Outcome.FAILED, Outcome.INCONCLUSIVE):
            groups[f"worse than in {one_line(verdict.change.baseline)}"] = worse
    elif verdict.metric and verdict.metric.name in RUN_METRICS and verdict.documents:
        named = {*verdict.documents}
        groups[verdict.metric.name] = [r for r in records if ids.get(r.index) in named]
    elif verdict.outcome is Outcome.FAILED or verdict.fails_alone:
        groups |= _wrong(verdict, records, result.metrics)
    return groups


def _wrong(
    verdict: Verdict, records: Sequence[Record], metrics: Sequence[MetricResult]
) -> dict[str, list[Record]]:
    """Return the documents that are wrong by the gate's metric, or those with its worst
    values if it does not determine correctness; none for a metric of the run."""
    metric = verdict.metric
    if metric is None:
        title, found = "wrong", [r for r in records if r.correct is False]
    else:
        scores = [
            (record, score)
            for record in records
            if not (record.error or record.excluded)
            for score in record.scores
            if score.key == metric.key and not score.unscored
        ]
        title, found = "wrong", [r for r, s in scores if s.correct is False]
        if not scores and metric.key in {one.key for one in metrics}:
            # A function of the user may return metrics that no document has.
            found = [record for record in records if record.correct is False]
        elif all(score.correct is None for _, score in scores):
            title, found = _worst(verdict, metric, scores)
    # Documents with a kept prompt and answer are more informative.
    found.sort(key=lambda record: not record.requests)
    return {title: found} if found else {}


def _worst(
    verdict: Verdict, metric: MetricResult, scores: Sequence[tuple[Record, Score]]
) -> tuple[str, list[Record]]:
    """Return a heading, and the documents without the best value, the worst first: the
    highest if the gate has only an upper threshold."""
    bounds = verdict.gate.bounds
    is_upper = bool(bounds) and not any(bound.is_lower for bound in bounds)
    lower = metric.higher_is_better is False or is_upper
    values = [score.value for _, score in scores]
    if not all(isinstance(value, int | float) for value in values):
        return "wrong", [record for record, _ in scores if record.correct is False]
    best = (min if lower else max)(values, default=None)
    worse = [(r, s.value) for r, s in scores if s.value != best]
    worse.sort(key=lambda one: one[1], reverse=lower)
    title = f"{'highest' if lower else 'lowest'} {one_line(metric.name)}"
    return title, [record for record, _ in worse]


def documents_to_inspect(verdict: Verdict, result: TaskResult | GroupResult) -> str:
    """Return the first documents behind a verdict on one line; empty for a group."""
    if isinstance(result, GroupResult):
        return ""
    ids, start = ids_by_index(result), _start(result.task)
    parts = []
    for title, records in _chosen(verdict, result, ids).items():
        named = ", ".join(_name(record, start, ids) for record in records[:_SHOWN])
        more = len(records) - _SHOWN
        parts.append(f"{title}: {named}" + f" and {more:,} more" * (more > 0))
    return "; ".join(parts)


def _examples(
    records: Sequence[Record],
    start: str,
    ids: Mapping[int, str],
    key: str,
    previous: Mapping[str, str],
) -> list[str]:
    lines = []
    for record in records:
        was = previous.get(ids.get(record.index, ""), "")
        lines.append(f"    {one_line(_name(record, start, ids))}")
        error = error_of(record)
        shown = [f"      error   {error}"] if error else []
        lines += shown or example_lines(record, " " * 6, key, was)
    return lines


def _again(path: Path, names: Sequence[str]) -> list[str]:
    """Yield commands for a task or group, and for a document of it in more detail."""
    nodes = [one_line(shlex.quote(f"{Place(path)}::{name}")) for name in names]
    more = [f"    pytest {node} -v" for node in nodes[1:]]
    heading = "  run again, with the same options"
    return ["", heading, f"    pytest {nodes[0]}", *more]


def _rerun(name: str, verdict: Verdict, label: str) -> str:
    """The end of a node id that runs a gate again: the task or group, or the gate if
    these have documents of other models or variants, too."""
    return f"{name}::{gate_name(verdict.gate.id, label)}" if label else name


def _start(task: Task, model: str = "") -> str:
    return document_start(task.node_name, node_label(model, task.variant))


def _name(record: Record, start: str, ids: Mapping[int, str]) -> str:
    return f"{start}{ids.get(record.index, record.index)}]"


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
    """Yield minus the number of unscored documents; the value, higher better; text."""
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


def shown_noise(metric: MetricResult | None) -> str:
    """The standard error of a number that no gate compares; the exact confidence
    interval of a proportion with few correct or few wrong answers, of which the
    standard error is too small; empty for a single document."""
    if metric is None or metric.estimate is None or metric.n_scored == 1:
        return ""
    count, n = metric.total, metric.n_scored
    if count is not None and min(count, n - count) < FEW:
        found = Proportion(count, n).interval(0.95)
        return f"90% CI [{figure(found.low)}, {figure(found.high)}]"
    stderr = metric.estimate.stderr
    return "" if stderr is None else f"± {figure(stderr)}"
