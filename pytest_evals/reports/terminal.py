"""The summary of a run: a table of tasks, metrics and gates, remarks, counts, times."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.core.metric import BOOTSTRAP_ITERS, MetricResult
from pytest_evals.core.result import GroupResult, RunResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.gates.figures import figure, figure_beside
from pytest_evals.gates.noise import WITHIN_NOISE
from pytest_evals.reports.escape import cut, one_line
from pytest_evals.reports.hierarchy import ordered
from pytest_evals.reports.progress import duration
from pytest_evals.reports.table import Column, Line, Row, table_lines, table_width
from pytest_evals.reports.usage import usage_line

__all__ = ["Line", "summary_lines"]

_COLUMNS = (
    Column(title="task", least=8),
    Column(title="docs", right=True, drop=5),
    Column(title="shots", right=True, drop=1),
    Column(title="filter", drop=2),
    Column(title="metric", least=11),
    Column(title="value", right=True),
    Column(title="", drop=3),
    Column(title="gate", drop=4),
    Column(title="verdict"),
)
_LONGEST_KEY = 24
"""Columns of the terminal for a metric with its filter; the metric comes first."""
_WORDS = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.INVALID: "INVALID",
    Outcome.SKIPPED: "skipped",
}
_COLOURS: dict[Outcome, dict[str, bool]] = {
    Outcome.PASSED: {"green": True},
    Outcome.FAILED: {"red": True},
    Outcome.INCONCLUSIVE: {"yellow": True},
    Outcome.INVALID: {"red": True},
    Outcome.SKIPPED: {"yellow": True},
}


def summary_lines(result: RunResult, width: int, path: str = "") -> list[Line]:
    """The summary, at most ``width`` columns wide but for paths.

    Args:
        result: The run.
        width: Columns of the terminal.
        path: Where the results were written, empty if they were not.
    """
    lines = []
    if result.partial:
        lines += _wrapped(f"partial run: {result.partial}", width, {"yellow": True})
    rows = [
        row
        for entry in ordered(result)
        for row in _rows(entry.result, result.verdicts, entry.depth)
    ]
    if rows:
        if table_width(_COLUMNS, rows) > width:
            rows = [_with_filter(row) for row in rows]
        lines += table_lines(_COLUMNS, rows, width)
    for text, markup in _remarks(result):
        lines += _wrapped(text, width, markup)
    for say in (_documents, _gates, _prompts, _tokens, _responses, _usage, _time):
        lines += _wrapped(say(result), width, {})
    if path:
        lines.append(Line(f"results: {one_line(path)}"))
    return lines


def _rows(
    result: TaskResult | GroupResult, verdicts: Sequence[Verdict], depth: int
) -> Iterator[Row]:
    """A row for each metric and gate; the task or group is named in its first."""
    one = result.group if isinstance(result, GroupResult) else result.task
    mine = [verdict for verdict in verdicts if verdict.gate.task == one.name]
    facts: list[tuple[MetricResult | None, Verdict | None]] = []
    for metric in result.metrics:
        judged = [v for v in mine if v.metric and v.metric.key == metric.key]
        # A gate may weigh tasks or reduce answers by its own rule.
        facts += [(v.metric, v) for v in judged] or [(metric, None)]
    facts += [(None, verdict) for verdict in mine if verdict.metric is None]
    name = " " * depth + "- " * (depth > 0) + one_line(one.alias or one.name)
    shots = _shots(one) if isinstance(one, Task) else ""
    for i, (found, verdict) in enumerate(facts or [(None, None)]):
        yield Row(
            (
                "" if i else name,
                _docs(result, found),
                "" if i else shots,
                one_line(_filter(found)),
                one_line(found.name if found else _claimed(verdict)),
                _value(found, verdict),
                _stderr(found),
                _claim(verdict),
                _word(verdict),
            ),
            _COLOURS[verdict.outcome] if verdict else {},
        )


def _shots(task: Task) -> str:
    """What the task file says of its shots, for tasks whose texts hold some; else those
    of its prompts."""
    metadata = task.config.get("metadata") or {}
    return one_line(str(metadata.get("num_fewshot", task.n_shots)))


def _with_filter(row: Row) -> Row:
    """The filter behind its metric, ``exact_match,strict-match``, instead of in a
    column of its own."""
    *before, name, metric, value, error, claim, word = row.cells
    key = cut(f"{metric},{name}", _LONGEST_KEY) if name else metric
    return Row((*before, "", key, value, error, claim, word), row.markup)


def _docs(result: TaskResult | GroupResult, metric: MetricResult | None) -> str:
    """``1172``, ``197/200`` when some lack a score, ``200 of 1172`` under a limit."""
    n = result.n_selected
    lacks = metric is not None and metric.n_scored != n
    if isinstance(result, GroupResult):  # not every task has every metric
        lacks = metric is not None and metric.n_lacking > 0
    text = f"{metric.n_scored}/{n}" if metric and lacks else str(n)
    return f"{text} of {result.n_total}" if n < result.n_total else text


def _filter(metric: MetricResult | None) -> str:
    return "" if metric is None or metric.filter == "none" else metric.filter


def _claimed(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    gate = verdict.gate
    return "must pass" if gate.must_pass else gate.metric


def _value(metric: MetricResult | None, verdict: Verdict | None) -> str:
    if metric is None or metric.estimate is None:
        return "-"
    if verdict is None or not verdict.gate.bounds:
        return figure(metric.estimate.value)
    return figure_beside(metric.estimate.value, verdict.gate.bounds[0].value)


def _stderr(metric: MetricResult | None) -> str:
    if metric is None or metric.estimate is None or metric.estimate.stderr is None:
        return ""
    return f"± {figure(metric.estimate.stderr)}"


def _claim(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    gate = verdict.gate
    if gate.must_pass:
        n = len(gate.must_pass)
        return f"{n} document{'s' * (n > 1)}"
    if gate.margin is not None:
        return f"{gate.margin} vs {gate.baseline}"
    return ", ".join(str(bound) for bound in gate.bounds)


def _word(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return _WORDS[verdict.outcome] + " (early)" * verdict.early


def _remarks(result: RunResult) -> Iterator[tuple[str, Mapping[str, bool]]]:
    """What a reader must know beyond the table."""
    for verdict in result.verdicts:
        gate, outcome = verdict.gate, verdict.outcome
        is_odd = outcome is not Outcome.PASSED or verdict.early or verdict.change
        if is_odd or verdict.notes or WITHIN_NOISE in verdict.reason:
            what = f"{gate.task}::{gate.id} {_word(verdict)}: {verdict.reason}"
            plain = outcome is Outcome.PASSED
            text = "; ".join((what, *verdict.notes))
            yield text, {} if plain else _COLOURS[outcome]
    for group in result.groups:
        for note in group.notes:
            yield f"{group.group.alias or group.group.name}: {note}", {"yellow": True}
        yield from _broken(group.group.alias or group.group.name, group.metrics)
    iterations = result.options.get("bootstrap_iters", BOOTSTRAP_ITERS)
    if iterations != BOOTSTRAP_ITERS and _has_stderr(result, "bootstrap"):
        what = f"bootstrapped standard errors are of {iterations:,} resamples, "
        yield f"{what}in lm-eval of {BOOTSTRAP_ITERS:,}", {}
    for task in result.tasks:
        name = task.task.alias or task.task.name
        yield from _broken(name, task.metrics)
        if task.n_truncated:
            what = f"{name}: {task.n_truncated} of {task.n_selected} documents did not "
            yield what + "fit into the model; their prompts were cut", {"yellow": True}


def _has_stderr(result: RunResult, method: str) -> bool:
    found = (m.estimate for task in result.tasks for m in task.metrics)
    return any(estimate and estimate.method == method for estimate in found)


def _broken(
    name: str, metrics: Sequence[MetricResult]
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    for metric in metrics:
        if metric.error:
            what = f"{name}: {metric.key} has no value: {metric.error}"
            yield what, {"red": True}


def _documents(result: RunResult) -> str:
    counts = Counter[str]()
    for task in result.tasks:
        counts["right"] += task.n_correct
        counts["wrong"] += task.n_wrong
        counts["scored"] += _neither(task)
        counts["errored"] += task.n_errored
        counts["unscored"] += task.n_unscored
        counts["not run"] += task.n_missing
    told = ", ".join(f"{n:,} {word}" for word, n in counts.items() if n)
    return f"documents: {told or 'none'}"


def _neither(task: TaskResult) -> int:
    """Documents that were scored by metrics that know no right and wrong."""
    return max(
        0,
        task.n_selected
        - (task.n_correct + task.n_wrong)
        - (task.n_errored + task.n_unscored + task.n_missing),
    )


def _gates(result: RunResult) -> str:
    counts = Counter(verdict.outcome for verdict in result.verdicts)
    told = [f"{counts[outcome]} {outcome.value}" for outcome in Outcome]
    return f"gates: {', '.join(t for t in told if t[0] != '0')}" if counts else ""


def _prompts(result: RunResult) -> str:
    """How prompts begin, for models that say it: a token too many or too few there
    changes every number."""
    begin = " ".join(map(repr, result.model_info.get("first_tokens") or ()))
    rule = result.model_info.get("bos_rule")
    told = [f"begin {begin}"] if begin else []
    told += [f"BOS token {rule}"] if rule else []
    return f"prompts: {'; '.join(told)}" if told else ""


def _tokens(result: RunResult) -> str:
    read = sum(task.n_prompt_tokens for task in result.tasks)
    made = sum(task.n_tokens for task in result.tasks)
    text = f"tokens: {read:,} in prompts, {made:,} scored or generated"
    return f"{text}; {result.n_requests:,} requests" if result.n_requests else text


def _responses(result: RunResult) -> str:
    """What came from the store; nothing where there is none."""
    reuse = result.reuse
    told = []
    if reuse.n_asked:
        told.append(f"{reuse.n_asked:,} asked")
    if reuse.n_reused:
        took = f" (they had taken {duration(reuse.elapsed_s)})"
        told.append(f"{reuse.n_reused:,} reused from the store{took}")
    if reuse.note:
        told.append(f"none stored, since {reuse.note}")
    return f"responses: {', '.join(told)}" if told else ""


def _usage(result: RunResult) -> str:
    return usage_line(result.model_info)


def _time(result: RunResult) -> str:
    tokens = sum(task.n_prompt_tokens + task.n_tokens for task in result.tasks)
    if result.reuse.n_asked or result.reuse.n_reused:
        tokens = result.reuse.n_tokens  # what was stored says nothing of today's speed
    speed = ""
    if result.model_s > 0 and tokens:
        speed = f" ({tokens / result.model_s:,.0f} tokens/s)"
    model = f"{duration(result.model_s)} in the model{speed}"
    return f"time: {model}, {duration(result.elapsed_s)} in all"


def _wrapped(text: str, width: int, markup: Mapping[str, bool]) -> list[Line]:
    lines = textwrap.wrap(one_line(text), max(width, 20), subsequent_indent="    ")
    return [Line(line, markup) for line in lines]
