"""Gates that count noise: a verdict only where the noise leaves no doubt.

``over: benchmark`` asks what another run on the same documents would say, ``over:
population`` what other documents of the same kind would. The number gets two one-sided
bounds; a gate passes when the one towards the bar keeps to it, fails when the other
does not, and is inconclusive between.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_evals.core.gate import Bound, Gate, Interval, Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.bounds.compare import distance, holds
from pytest_evals.gates.evidence.documents import labels_of, values_of
from pytest_evals.gates.evidence.reading import Reading, lacking, read, shortfall
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.noise.extremes import ends_of_share
from pytest_evals.gates.noise.placed import Placed, antilog
from pytest_evals.gates.noise.placing import place_noise
from pytest_evals.gates.wording.figures import figure, figure_beside

__all__ = ["judge_placed", "judge_with_noise"]

MOST_TIMES = 100
"""Times as many documents as were read: with more needed, the value is as good as on
the bound."""


def judge_with_noise(gate: Gate, metric: MetricResult, result: TaskResult) -> Verdict:
    """What becomes of a gate over another run or over other documents.

    Documents without a score are counted as all wrong and as all right; where that
    makes a difference, the gate is invalid.

    Args:
        gate: The gate.
        metric: What it is about.
        result: The task.

    Raises:
        UnsoundError: There is nothing sound to judge.
    """
    reading = read(metric)
    values = values_of(result, metric.key)
    labels = labels_of(result, gate.cluster, [*values])
    placed = place_noise(gate, metric, reading, [*values.values()], labels)
    ends = ends_of_share(gate, reading, placed, result, metric.key)
    return judge_placed(gate, metric, reading, placed, ends)


def judge_placed(
    gate: Gate,
    metric: MetricResult,
    reading: Reading,
    placed: Placed,
    ends: Sequence[Placed] = (),
) -> Verdict:
    """What becomes of a gate whose number's place is known.

    Args:
        gate: The gate.
        metric: What it is about.
        reading: Its number.
        placed: Where that lies.
        ends: Where it would lie if all documents without a score were wrong, and if all
            were right; needed if there are such documents.

    Raises:
        UnsoundError: Documents without a score decide it.
    """
    interval = _interval(gate, placed)
    outcome = _outcome(gate.bounds, interval)
    if reading.n_lacking:
        others = [_interval(gate, end) for end in ends]
        if not _stands(gate.bounds, outcome, others):
            raise UnsoundError(lacking(reading, gate.bounds[0].value))
    bound = _deciding(gate.bounds, interval, outcome)
    failed = outcome is Outcome.FAILED
    return Verdict(
        gate=gate,
        outcome=outcome,
        metric=metric,
        short=distance(bound, reading.value) if failed else 0.0,
        reason=_reason(gate, reading, placed, bound, outcome),
        interval=interval,
        p_fails=_p_fails(gate.bounds, placed),
        p_passes=max(_p_passes(bound, placed) for bound in gate.bounds),
        notes=placed.notes,
    )


def _interval(gate: Gate, placed: Placed) -> Interval:
    """The bounds of the number itself."""
    low, high = placed.spread.interval(gate.confidence)
    if placed.is_log:
        low, high = antilog(low), antilog(high)
    return Interval(low, high, placed.method)


def _p_fails(bounds: Sequence[Bound], placed: Placed) -> float | None:
    """The least p-value of the bounds that can break at all; ``None`` if none can."""
    low, high = placed.range
    able = [
        bound
        for bound in bounds
        if (bound.value > low if bound.op in (">=", ">") else bound.value < high)
    ]
    return min((_p_broken(one, placed) for one in able), default=None)


def _p_broken(bound: Bound, placed: Placed) -> float:
    spread, at = placed.spread, _on_scale(bound, placed)
    return spread.p_less(at) if bound.op in (">=", ">") else spread.p_greater(at)


def _p_passes(bound: Bound, placed: Placed) -> float:
    spread, at = placed.spread, _on_scale(bound, placed)
    return spread.p_greater(at) if bound.op in (">=", ">") else spread.p_less(at)


def _on_scale(bound: Bound, placed: Placed) -> float:
    """The bar where the number is compared."""
    bar = float(bound.value)
    if not placed.is_log:
        return bar
    return math.log(bar) if bar > 0 else -math.inf


def _outcome(bounds: Sequence[Bound], interval: Interval) -> Outcome:
    if any(not holds(bound, _kind_end(bound, interval)) for bound in bounds):
        return Outcome.FAILED
    if all(holds(bound, _strict_end(bound, interval)) for bound in bounds):
        return Outcome.PASSED
    return Outcome.INCONCLUSIVE


def _stands(
    bounds: Sequence[Bound], outcome: Outcome, ends: Sequence[Interval]
) -> bool:
    """Whether the outcome is the same wherever the interval may lie.

    What becomes of one bound changes once at most on the way from one end to the other;
    of two bounds, one may break at either end and none between.
    """
    if {_outcome(bounds, end) for end in ends} != {outcome}:
        return False
    if outcome is Outcome.PASSED:
        return True
    return any({_outcome((one,), end) for end in ends} == {outcome} for one in bounds)


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
    gate: Gate, reading: Reading, placed: Placed, bound: Bound, outcome: Outcome
) -> str:
    interval = _interval(gate, placed)
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
        text += _to_settle(gate, reading, bound, placed)
    return text


def _to_settle(gate: Gate, reading: Reading, bound: Bound, placed: Placed) -> str:
    """How many documents would settle it, if the value stays what it is."""

    def decides(n: int) -> bool:
        more = replace(placed, spread=placed.spread.scaled(n / reading.n_scored))
        interval = _interval(gate, more)
        return not holds(bound, _kind_end(bound, interval)) or holds(
            bound, _strict_end(bound, interval)
        )

    n = first_that(decides, reading.n_scored + 1, MOST_TIMES * reading.n_scored)
    if n is None:
        return "; the value is too near the bound for any number of documents"
    return f"; about {n:,} documents would settle it if the value stays"


def first_that(decides: Callable[[int], bool], least: int, most: int) -> int | None:
    """The smallest number of documents that decides; ``None`` if the most does not."""
    step = least
    while not decides(step):
        if step >= most:
            return None
        least, step = step + 1, min(2 * step, most)
    return least + bisect_left(range(least, step + 1), True, key=decides)
