"""A gate and the results of its task to a verdict.

One verdict feeds exit code, screen and files. It is green only when every document that
the gate is about was run and the verdict does not hang on documents without a score. An
error is never counted as a wrong answer. Here is the point rule; gates that count noise
are judged in :mod:`pytest_evals.gates.bounds.scopes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Bound, Gate, Outcome, Policy, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Find, no_reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.baseline.versus import judge_change
from pytest_evals.gates.bounds.compare import answers_short, broken, distance, holds
from pytest_evals.gates.bounds.scopes import judge_placed, judge_with_noise
from pytest_evals.gates.evidence.reading import Reading, lacking, read, shortfall
from pytest_evals.gates.evidence.repeating import of_group, reduced_result
from pytest_evals.gates.evidence.run_metrics import with_documents, with_run_metric
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.groups.changes import judge_group_change
from pytest_evals.gates.groups.members import members_of
from pytest_evals.gates.groups.together import (
    judge_group_noise,
    place_members,
    weighed,
)
from pytest_evals.gates.noise.chance import (
    NO_RECORD,
    WITHIN_NOISE,
    chance_to_hold,
    inside_noise,
)
from pytest_evals.gates.noise.extremes import at_ends
from pytest_evals.gates.noise.repeats import place_repeats
from pytest_evals.gates.verdicts.must_pass import judge_documents
from pytest_evals.gates.wording.figures import figure, figure_beside

__all__ = ["judge"]


def judge(
    gate: Gate,
    result: TaskResult | GroupResult,
    policy: Policy = "warn",
    find: Find = no_reference,
) -> Verdict:
    """What becomes of a gate of a task or a group.

    Documents that were not run make it skipped; documents without a score make it
    invalid when they could turn it; otherwise the value decides, exactly (see
    :mod:`pytest_evals.gates.bounds.compare`), or its interval where noise counts.

    Args:
        gate: The claim.
        result: What it is about.
        policy: What an open verdict means, if the gate does not say it.
        find: What a task was in a baseline.
    """
    verdict = _judged(gate, result, find)
    return replace(verdict, policy=gate.inconclusive or policy)


def _judged(gate: Gate, result: TaskResult | GroupResult, find: Find) -> Verdict:
    if gate.must_pass:
        assert isinstance(result, TaskResult)  # front ends refuse it for groups
        return judge_documents(gate, result)
    counted = with_run_metric(gate, result)
    if counted is not None:
        return with_documents(_judged(gate, counted, find), counted)
    metric = _find(gate, result.metrics)
    if isinstance(metric, str) and not result.n_missing:
        return Verdict(gate=gate, outcome=Outcome.INVALID, reason=metric)
    if isinstance(metric, str) or metric.n_missing:
        return _skipped(gate, metric, result)
    try:
        return _sound(gate, metric, result, find)
    except UnsoundError as error:
        return Verdict(
            gate=gate, outcome=error.outcome, metric=metric, reason=error.why
        )


def _sound(
    gate: Gate, metric: MetricResult, result: TaskResult | GroupResult, find: Find
) -> Verdict:
    """The verdict over all documents.

    Raises:
        UnsoundError: There is none.
    """
    unsound = _unsound(metric)
    if unsound:
        raise UnsoundError(unsound)
    counts_noise = gate.over == "population" or gate.flip_rate is not None
    if gate.reducer and isinstance(result, TaskResult):
        result = reduced_result(gate, metric, result)
        metric = next(one for one in result.metrics if one.key == metric.key)
        placed = place_repeats(gate, metric, result)
        if placed is not None and not gate.baseline:
            reading = read(metric)
            return judge_placed(gate, metric, reading, placed, at_ends(reading, placed))
    if isinstance(result, GroupResult):
        asked = counts_noise or gate.baseline or gate.weights or gate.reducer
        if asked or _lacks_members(gate, metric, result):
            return _by_members(gate, metric, result, find)
    elif gate.baseline:
        return judge_change(gate, metric, result, find(gate.baseline, gate.task))
    elif counts_noise:
        return judge_with_noise(gate, metric, result)
    return _by_point(gate, metric, read(metric))


def _by_members(
    gate: Gate, metric: MetricResult, result: GroupResult, find: Find
) -> Verdict:
    """A group's number out of those of its tasks."""
    if gate.reducer:
        result = of_group(gate, metric, result)
    members = members_of(gate, metric, result)
    if gate.baseline:
        return judge_group_change(gate, metric, members, find)
    own, reading = weighed(gate, metric, members)
    placed = place_members(gate, members)
    if placed is not None:
        return judge_group_noise(gate, own, reading, members, placed)
    return _by_point(gate, own, reading)


def _lacks_members(gate: Gate, metric: MetricResult, result: GroupResult) -> bool:
    """Whether documents lack a score, and what they are to the number is known."""
    known = any(rule.metric == gate.metric for rule in result.group.aggregates)
    n_lacking = metric.n_errored + metric.n_unscored
    return known and n_lacking > 0 and read(metric).total is None


def _by_point(gate: Gate, metric: MetricResult, reading: Reading) -> Verdict:
    if not gate.bounds:
        shown = figure(float(reading.value))
        reason = f"{metric.name} is there: {shown}"
        outcome = Outcome.PASSED
        return Verdict(gate=gate, outcome=outcome, metric=metric, reason=reason)
    if reading.n_lacking and _may_turn(gate.bounds, reading):
        raise UnsoundError(lacking(reading, gate.bounds[0].value))
    return _decided(gate, metric, reading)


def _find(gate: Gate, metrics: Sequence[MetricResult]) -> MetricResult | str:
    """The gate's metric, or why there is none."""
    named = [metric for metric in metrics if metric.name == gate.metric]
    if not named:
        names = sorted({metric.name for metric in metrics})
        hint = did_you_mean(gate.metric, names)
        if not hint:
            known = ", ".join(names) or "none"
            hint = f"; the task's metrics: {known}"
        return f"no metric called {gate.metric!r}{hint}"
    filters = [metric.filter for metric in named]
    if gate.filter:
        found = [metric for metric in named if metric.filter == gate.filter]
        if found:
            return found[0]
        hint = did_you_mean(gate.filter, filters) or f"; there is {', '.join(filters)}"
        return f"{gate.metric!r} has no filter called {gate.filter!r}{hint}"
    if len(named) > 1:
        choices = ", ".join(repr(metric.key) for metric in named)
        return (
            f"{gate.metric!r} exists under {len(named)} filters: name one of {choices}"
        )
    return named[0]


def _unsound(metric: MetricResult) -> str:
    """Why the number cannot be judged whatever the bound; empty if it can."""
    if not metric.n_scored:
        return (
            f"no document has a score{shortfall(metric.n_errored, metric.n_unscored)}"
        )
    if metric.estimate is None:
        return metric.error or "the metric has no value"
    if not math.isfinite(metric.estimate.value):
        return f"the value is {metric.estimate.value}, which is no finite number"
    return ""


def _may_turn(bounds: Sequence[Bound], reading: Reading) -> bool:
    """Whether the documents without a score could change the outcome."""
    if reading.wholes:
        return len({broken(bounds, whole) is None for whole in reading.wholes}) > 1
    if not reading.ends:
        return True
    low, high = reading.ends
    kept = all(holds(bound, low) and holds(bound, high) for bound in bounds)
    lost = any(not holds(bound, low) and not holds(bound, high) for bound in bounds)
    return not kept and not lost


def _skipped(
    gate: Gate, metric: MetricResult | str, result: TaskResult | GroupResult
) -> Verdict:
    found = None if isinstance(metric, str) else metric
    if found is not None and isinstance(result, GroupResult):
        result = result.having(found.name, found.filter)
    # The number of a group may count a task twice.
    counted = found is not None and isinstance(result, TaskResult)
    n_missing = found.n_missing if found and counted else result.n_missing
    n_run = result.n_selected - n_missing
    reason = f"{n_run} of {result.n_selected} documents were run"
    if found is not None and found.estimate is not None and found.n_scored:
        reason += f"; indicative value {figure(found.estimate.value)}"
    return Verdict(gate=gate, outcome=Outcome.SKIPPED, metric=found, reason=reason)


def _decided(gate: Gate, metric: MetricResult, reading: Reading) -> Verdict:
    failed = broken(gate.bounds, reading.value)
    bound = failed or min(gate.bounds, key=lambda b: distance(b, reading.value))
    n_short = None
    if failed and reading.total is not None:
        n_short = answers_short(
            gate.bounds, reading.total, reading.n, metric.higher_is_better
        )
    reason = " ".join(
        (
            figure_beside(float(reading.value), bound.value),
            f"is not {failed}" if failed else " and ".join(map(str, gate.bounds)),
        )
    )
    if reading.total is not None:
        reason += f" ({reading.total} of {reading.n_scored})"
    if reading.n_lacking:
        counts = shortfall(reading.n_errored, reading.n_unscored)
        reason += f"; no score of {reading.n_lacking} more{counts} could turn it"
    if gate.over == "benchmark":
        reason += f"; {NO_RECORD}"
    return Verdict(
        gate=gate,
        outcome=Outcome.FAILED if failed else Outcome.PASSED,
        metric=metric,
        short=distance(failed, reading.value) if failed else 0.0,
        n_short=n_short,
        reason=reason + _noise(gate, metric, reading, bound),
    )


def _noise(gate: Gate, metric: MetricResult, reading: Reading, bound: Bound) -> str:
    """A remark when the bound that decides lies inside the noise, else empty: the
    chance that the gate, with all of its bounds, would say the opposite."""
    stderr = metric.estimate.stderr if metric.estimate else None
    if stderr is None or not inside_noise(distance(bound, reading.value), stderr):
        return ""
    failed = not holds(bound, reading.value)
    counted = None if reading.total is None else (reading.total, reading.n_scored)
    chance = chance_to_hold(gate.bounds, float(reading.value), stderr, counted)
    opposite = chance if failed else 1 - chance
    if not opposite:
        return ""
    times = round(100 * opposite)
    would = "pass" if failed else "fail"
    often = f"{times} times in 100" if times > 1 else "about once in 100"
    return (
        f"; {WITHIN_NOISE}: on {reading.n_scored} other documents like these it would "
        f"{would} {often}"
    )
