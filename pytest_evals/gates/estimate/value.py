"""The estimate of a task's metric: which confidence limits fit which metric.

Proportions: exact binomial. Means of values in a known range: Gaffke. Other ratios of
sums and corpus metrics: :mod:`pytest_evals.gates.estimate.sums`. Else the metric's own
standard error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import EvalsError
from pytest_evals.gates.documents import InvalidGateError, labels_of, values_of
from pytest_evals.gates.estimate.estimate import NO_VARIANCE, GateEstimate
from pytest_evals.gates.estimate.sums import (
    FEW,
    Labels,
    estimate_bounded,
    estimate_number,
    estimate_totals,
    limits_of,
    totals_of,
)
from pytest_evals.stats.interval_methods import NormalEstimate, Proportion
from pytest_evals.stats.repeatability import mean_over_reruns

NO_FLIP_RATE = "a flip rate is known for metrics with correct and wrong documents only"


def has_limits(gate: Gate) -> bool:
    """Whether the gate compares confidence limits, and not the number itself."""
    return gate.over == "population" or (
        gate.over == "benchmark" and gate.flip_rate is not None
    )


def estimate_value(
    gate: Gate, metric: MetricResult, result: TaskResult
) -> GateEstimate:
    """The estimate of a task's metric for the inference target of a gate.

    Args:
        gate: The gate.
        metric: The metric, reduced if the gate has a reducer.
        result: The task.

    Raises:
        InvalidGateError: Nothing is known of its variance.
    """
    point = estimate_point(metric)
    reruns = _by_repeats(gate, metric, result, point)
    if reruns is not None:
        return reruns
    if not has_limits(gate):
        return point
    values = values_of(result, metric.key)
    labels = labels_of(result, gate.cluster, [*values])
    found = _with_limits(gate, metric, point, [*values.values()], labels)
    if not point.n_missing or point.missing is None:
        return found
    missing = _missing(gate, found, result, metric.key)
    every = found.count is not None and len(missing or ()) == found.n_missing + 1
    return replace(found, missing=missing, lists_all=every)


def estimate_point(metric: MetricResult) -> GateEstimate:
    """The number without confidence limits.

    Args:
        metric: A metric with a finite value.
    """
    assert metric.estimate is not None
    value: Fraction | float = metric.estimate.value
    count = metric.total
    if count is not None:
        share = Fraction(count, metric.n_scored)
        # A number of ones says nothing about a value that is not their mean.
        if math.isclose(value, share, rel_tol=1e-9, abs_tol=1e-12):
            value = share
        else:
            count = None
    found = GateEstimate(
        value=value,
        n=metric.n_scored,
        count=count,
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    if not found.n_missing:
        return found
    n = found.n + found.n_missing
    if count is not None:
        shares = (Fraction(k, n) for k in range(count, count + found.n_missing + 1))
        return replace(
            found, missing=tuple(GateEstimate(value=v) for v in shares), lists_all=True
        )
    limits = metric.how.known_limits if metric.how and metric.how.is_mean else None
    if limits is None or not all(map(math.isfinite, limits)):
        return found
    known = Fraction(value) * found.n
    ends = ((known + found.n_missing * Fraction(end)) / n for end in limits)
    return replace(found, missing=tuple(GateEstimate(value=end) for end in ends))


def _with_limits(
    gate: Gate,
    metric: MetricResult,
    point: GateEstimate,
    values: Sequence[Any],
    labels: Labels,
) -> GateEstimate:
    if gate.over == "population":
        found = estimate_metric(metric, point, values, labels)
    else:
        found = estimate_over_reruns(gate, point)
    return _counted_as(point, found)


def _counted_as(point: GateEstimate, found: GateEstimate) -> GateEstimate:
    """The estimate with the exact number and the numbers of documents."""
    return replace(
        found,
        value=point.value,
        n=point.n,
        count=point.count,
        n_errored=point.n_errored,
        n_unscored=point.n_unscored,
    )


def estimate_over_reruns(gate: Gate, point: GateEstimate) -> GateEstimate:
    """A mean over further runs on the same documents.

    The variance of a proportion of documents with a flip rate is half that rate per
    document; of other means, half the mean square of their changes.

    Raises:
        InvalidGateError: It is not a proportion, and its changes were not measured.
    """
    is_share = point.count is not None
    if not is_share and not gate.measured:
        raise InvalidGateError(NO_FLIP_RATE)
    stderr = math.sqrt((gate.flip_rate or 0.0) / (2 * point.n))
    low, high = (0.0, 1.0) if is_share else (-math.inf, math.inf)
    return replace(
        point,
        spread=NormalEstimate(float(point.value), stderr, low=low, high=high),
        method=flip_text(gate, is_share=is_share),
        range=(low, high),
    )


def flip_text(gate: Gate, *, is_share: bool) -> str:
    """The difference between two runs, in words."""
    rate = gate.flip_rate or 0.0
    if is_share:
        return f"flip rate {rate:g}"
    return f"documents change by {math.sqrt(rate):.3g} between runs"


def estimate_metric(
    metric: MetricResult, point: GateEstimate, values: Sequence[Any], labels: Labels
) -> GateEstimate:
    """A metric over other documents like these.

    Args:
        metric: The metric.
        point: Its number.
        values: One per scored document, in order; empty if they are not known.
        labels: Their clusters.

    Raises:
        InvalidGateError: Nothing is known of its variance.
    """
    how = metric.how
    if point.count is not None:
        return estimate_proportion(point.count, point.n, values, labels)
    if how is not None and values:
        try:
            ends = limits_of(values, how.known_limits)
            if how.is_mean and ends is not None:
                return estimate_bounded(values, labels, ends)
            totals = totals_of(how, values)
            if totals is not None:
                return _varied(metric, estimate_totals(totals, labels))
            if how.number is not None and labels is None:
                return _varied(metric, estimate_number(how, values))
        except (EvalsError, ValueError, TypeError, ArithmeticError) as error:
            why = f"{metric.key} has no confidence limits: {error}"
            raise InvalidGateError(why) from error
    if labels is not None:
        why = f"{metric.key} has no value per document, so cluster has no effect"
        raise InvalidGateError(why)
    return _by_own_stderr(metric, point)


def _varied(metric: MetricResult, found: GateEstimate) -> GateEstimate:
    if found.method == NO_VARIANCE:
        raise InvalidGateError(
            f"{metric.key} is the same in all {metric.n_scored} documents, so its "
            "variance is unknown"
        )
    return found


def estimate_proportion(
    count: int, n: int, values: Sequence[Any], labels: Labels
) -> GateEstimate:
    """A proportion, by the exact binomial distribution if documents are independent.

    Args:
        count: Documents with value 1.
        n: Documents.
        values: One per document; empty if they are not known.
        labels: Their clusters.
    """
    if labels is not None and len({*labels}) > 1 and len(values) == n:
        return estimate_bounded(values, labels, (0.0, 1.0))
    return GateEstimate(
        value=Fraction(count, n),
        n=n,
        count=count,
        spread=Proportion(count, n),
        method="Clopper-Pearson",
        range=(0.0, 1.0),
    )


def _by_own_stderr(metric: MetricResult, point: GateEstimate) -> GateEstimate:
    """By the metric's own standard error: Student's t if it is that of a mean."""
    estimate, n = metric.estimate, point.n
    stderr = estimate.stderr if estimate is not None else None
    if stderr is None or not math.isfinite(stderr) or stderr <= 0:
        raise InvalidGateError(f"{metric.key} has no standard error")
    is_mean = estimate is not None and estimate.method == "analytic" and n > 1
    spread = NormalEstimate(float(point.value), stderr, n - 1 if is_mean else math.inf)
    about = f", approximate for {n} documents" if n < FEW else ""
    method = f"{'t' if is_mean else 'normal'}{about}"
    return GateEstimate(value=point.value, spread=spread, method=method)


def _by_repeats(
    gate: Gate, metric: MetricResult, result: TaskResult, point: GateEstimate
) -> GateEstimate | None:
    """The mean of all answers over further runs on the same documents, by the variance
    between the answers to each document; ``None`` for other gates, and if a document
    has fewer than two answers."""
    if gate.reducer != "mean" or gate.over != "benchmark" or gate.flip_rate is not None:
        return None
    groups = [
        score.repeats
        for record in result.records
        for score in record.scores
        if score.key == metric.key
        and not (score.unscored or record.error or record.excluded)
    ]
    least = min(map(len, groups), default=0)
    if least < 2:
        return None
    known = metric.how.known_limits if metric.how is not None else None
    ends = limits_of([value for values in groups for value in values], known)
    found = GateEstimate(
        value=point.value,
        spread=mean_over_reruns(groups, ends),
        method=f"{least} answers to each document",
        range=ends or (-math.inf, math.inf),
    )
    found = _counted_as(point, found)
    return replace(found, missing=_shifted(found, point))


def _missing(
    gate: Gate, found: GateEstimate, result: TaskResult, key: str
) -> tuple[GateEstimate, ...] | None:
    """The estimate for the values of the documents without a score; ``None`` if that is
    not known.

    Of independent documents with value 0 or 1, each possible count. Else the lowest
    values and the highest: p-values of bounded means are monotone in each value.
    """
    if found.count is None and not all(map(math.isfinite, found.range)):
        return None
    values = values_of(result, key)
    lost = [
        record.index
        for record in result.records
        if record.index not in values and not record.excluded
    ]
    labels = None
    if gate.over == "population":
        try:
            labels = labels_of(result, gate.cluster, [*values, *lost])
        except InvalidGateError:  # the cluster of a lost document is not known
            return None
    return tuple(_with_lost(gate, found, [*values.values()], labels))


def _with_lost(
    gate: Gate, found: GateEstimate, values: Sequence[Any], labels: Labels
) -> Iterator[GateEstimate]:
    n, n_lost = found.n + found.n_missing, found.n_missing
    if found.count is not None and labels is None:
        for count in range(found.count, found.count + n_lost + 1):
            whole = estimate_proportion(count, n, (), None)
            population = gate.over == "population"
            yield whole if population else estimate_over_reruns(gate, whole)
        return
    for end in (0.0, 1.0) if found.count is not None else found.range:
        total = Fraction(found.value) * found.n + n_lost * Fraction(end)
        whole = replace(found, value=total / n, n=n)
        if gate.over != "population":
            yield estimate_over_reruns(gate, whole)
        elif isinstance(found.spread, NormalEstimate):
            moved = replace(found.spread, value=float(whole.value))
            yield replace(whole, spread=moved)
        else:
            yield estimate_bounded([*values, *[end] * n_lost], labels, found.range)


def _shifted(
    found: GateEstimate, point: GateEstimate
) -> tuple[GateEstimate, ...] | None:
    """The estimate at the extremes of the number, with the same standard error."""
    if point.missing is None or not isinstance(found.spread, NormalEstimate):
        return None
    ends = (point.missing[0].value, point.missing[-1].value)
    return tuple(
        replace(found, value=end, spread=replace(found.spread, value=float(end)))
        for end in ends
    )
