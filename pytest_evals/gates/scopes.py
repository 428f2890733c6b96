"""Gates that count noise: a verdict only where the noise leaves no doubt.

``over: benchmark`` asks what another run on the same documents would say, ``over:
population`` what other documents of the same kind would. The number gets two one-sided
bounds; a gate passes when the one towards the bar keeps to it, fails when the other
does not, and is inconclusive between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from pytest_evals.core.gate import Bound, Gate, Interval, Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.gates.compare import distance, holds
from pytest_evals.gates.figures import figure, figure_beside
from pytest_evals.gates.reading import Reading, lacking, shortfall

__all__ = ["NO_RECORD", "judge_with_noise"]

NO_RECORD = "no record of the noise between runs, so this is this run's number"
"""Stands in the reason of a verdict that could count no noise."""
FEW = 30
"""Documents below which an interval of a mean is only about right."""


def judge_with_noise(gate: Gate, metric: MetricResult, reading: Reading) -> Verdict:
    """What becomes of a gate over another run or over other documents.

    Documents without a score are counted as all wrong and as all right; where that
    makes a difference, the gate is invalid.
    """
    interval = _interval(gate, metric, reading)
    if isinstance(interval, str):
        return _invalid(gate, metric, interval)
    outcome = _outcome(gate.bounds, interval)
    if reading.n_lacking:
        ends = _with_all(gate, metric, reading)
        if ends != {outcome}:
            return _invalid(gate, metric, lacking(reading, gate.bounds[0].value))
    bound = _deciding(gate.bounds, interval, outcome)
    failed = outcome is Outcome.FAILED
    return Verdict(
        gate=gate,
        outcome=outcome,
        metric=metric,
        short=distance(bound, reading.value) if failed else 0.0,
        reason=_reason(gate, reading, interval, bound, outcome),
        interval=interval,
    )


def _invalid(gate: Gate, metric: MetricResult, why: str) -> Verdict:
    return Verdict(gate=gate, outcome=Outcome.INVALID, metric=metric, reason=why)


def _interval(gate: Gate, metric: MetricResult, reading: Reading) -> Interval | str:
    """The bounds of a number, or why there are none.

    Shares of right answers: Wilson's interval over other documents; over another run,
    the variance of a mean of answers of which a share turns between two runs, half that
    share a document. Other numbers: their own standard error, with Student's t where it
    is a mean's.
    """
    from pytest_evals.stats.intervals import normal, student, wilson

    value, n = float(reading.value), reading.n_scored
    if gate.over == "benchmark":
        if reading.total is None:
            return (
                "a rate of turned answers says nothing of a metric without right ones"
            )
        stderr = math.sqrt((gate.flip_rate or 0.0) / (2 * n))
        found = normal(value, stderr, gate.confidence)
        return Interval(*found, f"{gate.flip_rate:g} of answers turn")
    if reading.total is not None:
        return Interval(*wilson(value, n, gate.confidence), "Wilson")
    estimate = metric.estimate
    own = estimate.stderr if estimate is not None else None
    if own is None or not math.isfinite(own) or own <= 0:
        return f"{metric.key} has no standard error to count noise by"
    about = f", about right for {n} documents" if n < FEW else ""
    if estimate is not None and estimate.method == "analytic" and n > 1:
        return Interval(*student(value, own, n - 1, gate.confidence), f"t{about}")
    return Interval(*normal(value, own, gate.confidence), f"normal{about}")


def _with_all(gate: Gate, metric: MetricResult, reading: Reading) -> set[Outcome]:
    """What the outcome would be, were all documents without a score wrong, or right."""
    if reading.total is None:
        return {Outcome.INVALID}
    found = set()
    for end in reading.ends:
        whole = replace(
            reading, value=end, total=int(end * reading.n), n_scored=reading.n
        )
        interval = _interval(gate, metric, whole)
        assert not isinstance(interval, str)  # shares of right answers have one
        found.add(_outcome(gate.bounds, interval))
    return found


def _outcome(bounds: Sequence[Bound], interval: Interval) -> Outcome:
    if any(not holds(bound, _kind_end(bound, interval)) for bound in bounds):
        return Outcome.FAILED
    if all(holds(bound, _strict_end(bound, interval)) for bound in bounds):
        return Outcome.PASSED
    return Outcome.INCONCLUSIVE


def _strict_end(bound: Bound, interval: Interval) -> float:
    """The end of the interval that is nearer to breaking the bound."""
    return interval.low if bound.op in (">=", ">") else interval.high


def _kind_end(bound: Bound, interval: Interval) -> float:
    return interval.high if bound.op in (">=", ">") else interval.low


def _deciding(bounds: Sequence[Bound], interval: Interval, outcome: Outcome) -> Bound:
    """The bound that the verdict hangs on."""
    if outcome is Outcome.PASSED:
        return min(bounds, key=lambda b: distance(b, _strict_end(b, interval)))
    end = _kind_end if outcome is Outcome.FAILED else _strict_end
    return next(bound for bound in bounds if not holds(bound, end(bound, interval)))


def _reason(
    gate: Gate, reading: Reading, interval: Interval, bound: Bound, outcome: Outcome
) -> str:
    value = figure_beside(float(reading.value), bound.value)
    numbers = f"{value} [{figure(interval.low)}, {figure(interval.high)}]"
    claim = " and ".join(map(str, gate.bounds))
    said = {
        Outcome.PASSED: claim,
        Outcome.FAILED: f"is not {bound}",
        Outcome.INCONCLUSIVE: f"leaves {bound} open",
    }[outcome]
    counted = (
        f"{reading.n_scored} documents"
        if reading.total is None
        else f"{reading.total} of {reading.n_scored}"
    )
    how = f"over: {gate.over}, {interval.method}, confidence {gate.confidence:g}"
    text = f"{numbers} {said} ({counted}; {how})"
    if reading.n_lacking:
        counts = shortfall(reading.n_errored, reading.n_unscored)
        text += f"; no score of {reading.n_lacking} more{counts} could turn it"
    if outcome is Outcome.INCONCLUSIVE and gate.over == "population":
        text += _to_settle(gate, reading, interval, bound)
    return text


def _to_settle(gate: Gate, reading: Reading, interval: Interval, bound: Bound) -> str:
    """How many documents would settle it, if the value stays what it is."""
    from pytest_evals.stats.intervals import sample_size

    away = distance(bound, reading.value)
    reach = abs(_strict_end(bound, interval) - float(reading.value))
    # Beyond a hundred times as many, the value is as good as on the bar.
    if away * 10 < reach:
        return "; the value is too near the bar for any number of documents"
    if isinstance(reading.value, Fraction):
        stderr = math.sqrt(reading.value * (1 - reading.value) / reading.n_scored)
        n = sample_size(reading.n_scored, stderr, away, gate.confidence)
    else:
        n = math.ceil(reading.n_scored * (reach / away) ** 2)
    return f"; about {n:,} documents would settle it if the value stays"
