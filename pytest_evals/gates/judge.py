"""A gate and the results of its task to a verdict: the point rule.

One verdict feeds exit code, screen and files. It is green only when every document that
the gate is about was run and the verdict does not hang on documents without a score. An
error is never counted as a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_evals.core.gate import Bound, Gate, Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.compare import answers_short, broken, distance, holds
from pytest_evals.gates.figures import figure, figure_beside
from pytest_evals.gates.must_pass import judge_documents
from pytest_evals.gates.noise import chance_to_hold, inside_noise

__all__ = ["WITHIN_NOISE", "judge"]

WITHIN_NOISE = "within noise"
"""Stands in the reason of a verdict that other documents might well have turned."""


def judge(gate: Gate, result: TaskResult | GroupResult) -> Verdict:
    """What becomes of a gate of a task or a group.

    Documents that were not run make it skipped; documents without a score make it
    invalid when they could turn it; otherwise the value decides, exactly (see
    :mod:`pytest_evals.gates.compare`).
    """
    if gate.must_pass:
        assert isinstance(result, TaskResult)  # front ends refuse it for groups
        return judge_documents(gate, result)
    metric = _find(gate, result.metrics)
    if isinstance(metric, str) and not result.n_missing:
        return Verdict(gate=gate, outcome=Outcome.INVALID, reason=metric)
    if isinstance(metric, str) or metric.n_missing:
        return _skipped(gate, metric, result)
    unsound = _unsound(metric)
    if unsound:
        return _invalid(gate, metric, unsound)
    reading = _read(metric)
    if reading.n_lacking and _may_turn(gate.bounds, reading):
        return _invalid(gate, metric, _lacking(reading, gate.bounds))
    return _decided(gate, metric, reading)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A metric's value in the form in which it is compared.

    Args:
        value: A fraction when right answers were counted, else a double.
        total: Documents with value 1, ``None`` when the value is no share of them.
        n_scored: Documents with a value.
        n_errored: Documents that failed.
        n_unscored: Documents whose score has no value.
    """

    value: Fraction | float
    total: int | None
    n_scored: int
    n_errored: int
    n_unscored: int

    @property
    def n_lacking(self) -> int:
        return self.n_errored + self.n_unscored

    @property
    def n(self) -> int:
        return self.n_scored + self.n_lacking

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The share with all lacking documents counted as 0, and as 1."""
        total = self.total or 0
        return Fraction(total, self.n), Fraction(total + self.n_lacking, self.n)


def _read(metric: MetricResult) -> _Reading:
    assert metric.estimate is not None  # _unsound has seen to it
    value: Fraction | float = metric.estimate.value
    total = metric.total
    if total is not None:
        share = Fraction(total, metric.n_scored)
        # A sum of ones says nothing of a value that is not their mean.
        if math.isclose(value, share, rel_tol=1e-9, abs_tol=1e-12):
            value = share
        else:
            total = None
    return _Reading(
        value=value,
        total=total,
        n_scored=metric.n_scored,
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )


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
            f"no document has a score{_shortfall(metric.n_errored, metric.n_unscored)}"
        )
    if metric.estimate is None:
        return metric.error or "the metric has no value"
    if not math.isfinite(metric.estimate.value):
        return f"the value is {metric.estimate.value}, which is no finite number"
    return ""


def _may_turn(bounds: Sequence[Bound], reading: _Reading) -> bool:
    """Whether the documents without a score could change the outcome."""
    if reading.total is None:
        return True
    low, high = reading.ends
    kept = all(holds(bound, low) and holds(bound, high) for bound in bounds)
    lost = any(not holds(bound, low) and not holds(bound, high) for bound in bounds)
    return not kept and not lost


def _lacking(reading: _Reading, bounds: Sequence[Bound]) -> str:
    shortfall = _shortfall(reading.n_errored, reading.n_unscored)
    have = "has" if reading.n_lacking == 1 else "have"
    text = f"{reading.n_lacking} of {reading.n} documents {have} no score{shortfall}"
    if reading.total is None:
        return text
    low, high = (figure_beside(float(end), bounds[0].value) for end in reading.ends)
    return f"{text}; the value is between {low} and {high}, so they decide it"


def _shortfall(n_errored: int, n_unscored: int) -> str:
    counts = [(n_errored, "errored"), (n_unscored, "unscored")]
    parts = [f"{n} {word}" for n, word in counts if n]
    return f" ({', '.join(parts)})" if parts else ""


def _skipped(
    gate: Gate, metric: MetricResult | str, result: TaskResult | GroupResult
) -> Verdict:
    found = None if isinstance(metric, str) else metric
    # The number of a group may count a task twice.
    counted = found is not None and isinstance(result, TaskResult)
    n_missing = found.n_missing if found and counted else result.n_missing
    n_run = result.n_selected - n_missing
    reason = f"{n_run} of {result.n_selected} documents were run"
    if found is not None and found.estimate is not None and found.n_scored:
        reason += f"; indicative value {figure(found.estimate.value)}"
    return Verdict(gate=gate, outcome=Outcome.SKIPPED, metric=found, reason=reason)


def _invalid(gate: Gate, metric: MetricResult, reason: str) -> Verdict:
    return Verdict(gate=gate, outcome=Outcome.INVALID, metric=metric, reason=reason)


def _decided(gate: Gate, metric: MetricResult, reading: _Reading) -> Verdict:
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
        shortfall = _shortfall(reading.n_errored, reading.n_unscored)
        reason += f"; no score of {reading.n_lacking} more{shortfall} could turn it"
    return Verdict(
        gate=gate,
        outcome=Outcome.FAILED if failed else Outcome.PASSED,
        metric=metric,
        short=distance(failed, reading.value) if failed else 0.0,
        n_short=n_short,
        reason=reason + _noise(metric, reading, bound, failed is not None),
    )


def _noise(metric: MetricResult, reading: _Reading, bound: Bound, failed: bool) -> str:
    """A remark when the bound lies inside the noise, else empty."""
    stderr = metric.estimate.stderr if metric.estimate else None
    if stderr is None or not inside_noise(distance(bound, reading.value), stderr):
        return ""
    counted = None if reading.total is None else (reading.total, reading.n_scored)
    chance = chance_to_hold(bound, float(reading.value), stderr, counted)
    times = round(100 * (chance if failed else 1 - chance))
    would = "pass" if failed else "fail"
    often = f"{times} times in 100" if times > 1 else "about once in 100"
    return (
        f"; {WITHIN_NOISE}: on {reading.n_scored} other documents like these it would "
        f"{would} {often}"
    )
