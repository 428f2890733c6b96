"""Confidence limits of a metric: which statistics fit which metric.

Proportions, bounded means, other ratios of sums, statistics of sums, and the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.errors import EvalsError
from pytest_evals.gates.evidence.reading import Reading
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.noise.chance import NO_TURNS
from pytest_evals.gates.noise.placed import STILL, Placed
from pytest_evals.gates.noise.sums import (
    FEW,
    Labels,
    limits_of,
    place_bounded,
    place_number,
    place_totals,
    totals_of,
)
from pytest_evals.stats.spread import Located, Proportion

__all__ = ["place", "place_between_runs", "place_noise", "place_share", "turns"]


def place_noise(
    gate: Gate,
    metric: MetricResult,
    reading: Reading,
    values: Sequence[Any],
    labels: Labels,
) -> Placed:
    """Confidence limits of a metric for the inference target of a gate.

    Args:
        gate: The gate.
        metric: The metric.
        reading: Its number.
        values: One a document with a score, in order; empty if they are not known.
        labels: Their clusters.

    Raises:
        UnsoundError: There is no information about its variance.
    """
    if gate.over == "population":
        return place(metric, reading, values, labels)
    return place_between_runs(gate, reading)


def place_between_runs(gate: Gate, reading: Reading) -> Placed:
    """Limits of a mean over further runs on the same documents.

    The variance of a mean of answers of which a share flips between two runs is half
    that share a document; of other numbers, half the mean square of their changes.

    Raises:
        UnsoundError: It is not a proportion, and its changes were not measured.
    """
    if reading.total is None and not gate.measured:
        raise UnsoundError(NO_TURNS)
    stderr = math.sqrt((gate.flip_rate or 0.0) / (2 * reading.n_scored))
    is_share = reading.total is not None
    low, high = (0.0, 1.0) if is_share else (-math.inf, math.inf)
    spread = Located(float(reading.value), stderr, low=low, high=high)
    method = turns(gate, is_share=is_share)
    return Placed(spread=spread, method=method, range=(low, high))


def turns(gate: Gate, *, is_share: bool) -> str:
    """How much differs between two runs, in words."""
    rate = gate.flip_rate or 0.0
    if is_share:
        return f"{rate:g} of answers turn"
    return f"documents change by {math.sqrt(rate):.3g} from run to run"


def place(
    metric: MetricResult, reading: Reading, values: Sequence[Any], labels: Labels
) -> Placed:
    """Limits of a metric over other documents like these.

    Args:
        metric: The metric.
        reading: Its number.
        values: One a document with a score, in order; empty if they are not known.
        labels: Their clusters.

    Raises:
        UnsoundError: There is no information about its variance.
    """
    how = metric.how
    if reading.total is not None:
        return place_share(reading.total, reading.n_scored, values, labels)
    if how is not None and values:
        try:
            ends = limits_of(values, how.known_limits)
            if how.is_mean and ends is not None:
                return place_bounded(values, labels, ends)
            totals = totals_of(how, values)
            if totals is not None:
                return _varied(metric, place_totals(totals, labels))
            if how.number is not None and labels is None:
                return _varied(metric, place_number(how, values))
        except (EvalsError, ValueError, TypeError, ArithmeticError) as error:
            why = f"the noise of {metric.key} cannot be told: {error}"
            raise UnsoundError(why) from error
    if labels is not None:
        why = f"{metric.key} has no value in each document, so clusters mean nothing"
        raise UnsoundError(why)
    return _by_own_stderr(metric, reading)


def _varied(metric: MetricResult, placed: Placed) -> Placed:
    if placed.method == STILL:
        raise UnsoundError(
            f"{metric.key} is the same in all {metric.n_scored} documents, which says "
            "nothing of how others would vary"
        )
    return placed


def place_share(total: int, n: int, values: Sequence[Any], labels: Labels) -> Placed:
    """Limits of a proportion: the exact ones of the binomial distribution.

    Args:
        total: Documents that count.
        n: Documents.
        values: Each document's; empty if they are not known.
        labels: Their clusters.
    """
    if labels is None or len({*labels}) < 2 or len(values) != n:
        spread = Proportion(total, n)
        return Placed(spread=spread, method="Clopper-Pearson", range=(0.0, 1.0))
    return place_bounded(values, labels, (0.0, 1.0))


def _by_own_stderr(metric: MetricResult, reading: Reading) -> Placed:
    """By the standard error that the metric has itself: Student's t if it is a
    mean's."""
    estimate, n = metric.estimate, reading.n_scored
    stderr = estimate.stderr if estimate is not None else None
    if stderr is None or not math.isfinite(stderr) or stderr <= 0:
        raise UnsoundError(f"{metric.key} has no standard error to count noise by")
    is_mean = estimate is not None and estimate.method == "analytic" and n > 1
    spread = Located(float(reading.value), stderr, n - 1 if is_mean else math.inf)
    about = f", about right for {n} documents" if n < FEW else ""
    return Placed(spread=spread, method=f"{'t' if is_mean else 'normal'}{about}")
