"""Notes below the table of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_evals.core.gate import Outcome
from pytest_evals.core.metric import BOOTSTRAP_ITERS, MetricResult
from pytest_evals.core.result import RunResult
from pytest_evals.gates.explain import WITHIN_NOISE
from pytest_evals.reports.overview.rows import COLOURS, verdict_word


def remarks(result: RunResult) -> Iterator[tuple[str, Mapping[str, bool]]]:
    """Yield text and colour of each note: gates that did not plainly pass, metrics that
    could not be computed, truncated prompts."""
    for verdict in result.verdicts:
        gate, outcome = verdict.gate, verdict.outcome
        is_odd = outcome is not Outcome.PASSED or verdict.early or verdict.change
        if is_odd or verdict.notes or WITHIN_NOISE in verdict.reason:
            what = f"{gate.task}::{gate.id} {verdict_word(verdict)}: {verdict.reason}"
            plain = outcome is Outcome.PASSED
            text = "; ".join((what, *verdict.notes))
            yield text, {} if plain else COLOURS[outcome]
    for group in result.groups:
        for note in group.notes:
            yield f"{group.group.alias or group.group.name}: {note}", {"yellow": True}
        yield from _about(group.group.alias or group.group.name, group.metrics)
    iterations = result.options.get("bootstrap_iters", BOOTSTRAP_ITERS)
    if iterations != BOOTSTRAP_ITERS and _has_stderr(result, "bootstrap"):
        what = f"bootstrapped standard errors are of {iterations:,} resamples, "
        yield f"{what}in lm-eval of {BOOTSTRAP_ITERS:,}", {}
    for task in result.tasks:
        name = task.task.alias or task.task.name
        yield from _about(name, task.metrics)
        if not task.n_correct + task.n_wrong:
            yield from _undecided(name, task.metrics)
        if task.n_truncated:
            what = f"{name}: {task.n_truncated} of {task.n_selected} documents did not "
            yield what + "fit into the model; their prompts were cut", {"yellow": True}
        if task.n_cut_short:
            what = f"{name}: {task.n_cut_short} of {task.n_selected} documents have an "
            what += "answer cut off before its own token limit: the context window was "
            yield what + "full or the server has a lower limit", {"yellow": True}


def _has_stderr(result: RunResult, method: str) -> bool:
    found = (m.estimate for task in result.tasks for m in task.metrics)
    return any(estimate and estimate.method == method for estimate in found)


def _about(
    name: str, metrics: Sequence[MetricResult]
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    for metric in metrics:
        if metric.error:
            what = f"{name}: {metric.key} has no value: {metric.error}"
            yield what, {"red": True}
        if metric.estimate is not None and metric.estimate.note:
            yield f"{name}: {metric.key}: {metric.estimate.note}", {}


def _undecided(
    name: str, metrics: Sequence[MetricResult]
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    for metric in metrics:
        if metric.estimate is not None and metric.estimate.undecided:
            why = metric.estimate.undecided
            yield f"{name}: {metric.key}: no document is correct or wrong: {why}", {}
