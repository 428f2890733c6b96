"""Values of documents to a number and where it lies.

Which statistics fit which metric: shares of right answers, means, ratios of sums, what
is computed from sums, and the rest.
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
from pytest_evals.gates.noise.placed import STILL, Placed, few_clusters, share_of
from pytest_evals.gates.noise.sums import (
    FEW,
    Labels,
    place_number,
    place_totals,
    totals_of,
)
from pytest_evals.stats.clusters import clustered_stderr
from pytest_evals.stats.spread import Located, Share

__all__ = ["place", "place_between_runs", "place_noise", "place_share", "turns"]


def place_noise(
    gate: Gate,
    metric: MetricResult,
    reading: Reading,
    values: Sequence[Any],
    labels: Labels,
) -> Placed:
    """Where a metric lies by the noise that a gate counts.

    Args:
        gate: The gate.
        metric: What it is about.
        reading: Its number.
        values: One a document with a score, in order; empty if they are not known.
        labels: Their clusters.

    Raises:
        UnsoundError: Nothing says how it varies.
    """
    if gate.over == "population":
        return place(metric, reading, values, labels)
    return place_between_runs(gate, reading)


def place_between_runs(gate: Gate, reading: Reading) -> Placed:
    """Where a mean lies over other runs on the same documents.

    The variance of a mean of answers of which a share turns between two runs is half
    that share a document; of other numbers, half the mean square of their changes.

    Raises:
        UnsoundError: It is no share of right answers, and its changes were not
            measured.
    """
    if reading.total is None and not gate.measured:
        raise UnsoundError(NO_TURNS)
    stderr = math.sqrt((gate.flip_rate or 0.0) / (2 * reading.n_scored))
    spread = Located(float(reading.value), stderr)
    return Placed(spread=spread, method=turns(gate, is_share=reading.total is not None))


def turns(gate: Gate, *, is_share: bool) -> str:
    """How much differs between two runs, in words."""
    rate = gate.flip_rate or 0.0
    if is_share:
        return f"{rate:g} of answers turn"
    return f"documents change by {math.sqrt(rate):.3g} from run to run"


def place(
    metric: MetricResult, reading: Reading, values: Sequence[Any], labels: Labels
) -> Placed:
    """Where a metric lies among other documents like these.

    Args:
        metric: The metric.
        reading: Its number.
        values: One a document with a score, in order; empty if they are not known.
        labels: Their clusters.

    Raises:
        UnsoundError: Nothing says how it varies.
    """
    how = metric.how
    if reading.total is not None:
        return place_share(float(reading.value), reading.n_scored, values, labels)
    if how is not None and values:
        try:
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


def place_share(value: float, n: int, values: Sequence[Any], labels: Labels) -> Placed:
    """Where a share of right answers lies, by Wilson; of documents that hang together
    there are fewer than it seems.

    Args:
        value: The share.
        n: Documents.
        values: Each document's; empty if they are not known.
        labels: Their clusters.
    """
    if labels is None or len({*labels}) < 2 or len(values) != n:
        return Placed(spread=Share(value, n), method="Wilson")
    found = clustered_stderr([one - value for one in values], labels)
    varies = 0 < value < 1
    n_effective = n / found.design_effect if varies else found.n_clusters
    effect = (
        f"design effect {found.design_effect:.3g} over {found.n_clusters} clusters"
        if varies
        else f"all alike over {found.n_clusters} clusters"
    )
    note = f"{effect} (effective n {n_effective:.0f})"
    return Placed(
        spread=share_of(value, n_effective, found.n_clusters),
        method="clustered Wilson",
        notes=(note, *few_clusters(found.n_clusters)),
    )


def _by_own_stderr(metric: MetricResult, reading: Reading) -> Placed:
    """By the standard error that the metric has itself: Student's t where it is a
    mean's."""
    estimate, n = metric.estimate, reading.n_scored
    stderr = estimate.stderr if estimate is not None else None
    if stderr is None or not math.isfinite(stderr) or stderr <= 0:
        raise UnsoundError(f"{metric.key} has no standard error to count noise by")
    is_mean = estimate is not None and estimate.method == "analytic" and n > 1
    spread = Located(float(reading.value), stderr, n - 1 if is_mean else math.inf)
    about = f", about right for {n} documents" if n < FEW else ""
    return Placed(spread=spread, method=f"{'t' if is_mean else 'normal'}{about}")
