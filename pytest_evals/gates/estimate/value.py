"""The estimate of a task's metric, with the method that fits the metric.

Proportions: exact binomial. Means of values in a known range: Gaffke. Other ratios of
sums and corpus metrics: :mod:`pytest_evals.gates.estimate.sums`. Else the metric's own
standard error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Metric, MetricResult
from pytest_evals.core.rated_documents import RatedDocuments, rated_documents
from pytest_evals.errors import EvalsError
from pytest_evals.gates.check import labels_fault
from pytest_evals.gates.estimate.sums import (
    FEW,
    assumed_range,
    assumption,
    estimate_bounded,
    estimate_number,
    estimate_ratio,
    estimate_totals,
    limits_of,
    totals_of,
)
from pytest_evals.gates.observations import Observations
from pytest_evals.gates.read.entry import COMPARED
from pytest_evals.gates.terms import (
    NO_VARIANCE,
    GateEstimate,
    InvalidGateError,
    figure,
    has_limits,
)
from pytest_evals.stats.averages import Labels, mean_over_reruns
from pytest_evals.stats.interval_methods import NormalEstimate, Proportion
from pytest_evals.stats.prediction_powered import (
    METHOD,
    RectifiedMean,
    mean_of_population,
    mean_of_run,
)

KL_CAP = COMPARED["kl"][1]
NO_FLIP_RATE = (
    "flip rates are only defined for metrics with correct and wrong documents"
)


def estimate_value(gate: Gate, seen: Observations) -> GateEstimate:
    """The estimate of a task's metric for the inference target of a gate."""
    metric = seen.metric
    if metric.how is not None and metric.how.labels is not None:
        return estimate_labelled(gate, seen)
    point = estimate_point(metric)
    if metric.name == "kl" and gate.baseline and gate.margin is None:
        return _of_divergence(gate, seen, point)
    if (reruns := _by_repeats(gate, seen, point)) is not None:
        return reruns
    if not has_limits(gate):
        return point
    labels = seen.clusters(gate.cluster, seen.positions)
    if gate.over == "population":
        estimate = estimate_metric(metric, point, seen.values, labels)
    else:
        estimate = estimate_over_reruns(gate, point)
    return _counted_as(point, estimate)


def _of_divergence(gate: Gate, seen: Observations, point: GateEstimate) -> GateEstimate:
    """A mean of divergences, each counted up to a cap."""
    if gate.over == "run":
        return point
    labels = seen.clusters(gate.cluster, seen.positions)
    capped = [min(value, KL_CAP) for value in seen.values]
    estimate = estimate_bounded(capped, labels, (0.0, KL_CAP))
    n_capped = sum(value > KL_CAP for value in seen.values)
    above = f"; {n_capped} of {point.n} are above it, the uncapped mean is "
    above += figure(float(point.value))
    about = (
        f"the gate is about the mean of kl capped at log 2 ({KL_CAP:.3f}) in each "
        f"document{above * bool(n_capped)}"
    )
    notes = (*estimate.notes, about)
    return replace(_counted_as(point, estimate), value=estimate.value, notes=notes)


def estimate_point(metric: MetricResult) -> GateEstimate:
    """The number without confidence limits."""
    assert metric.estimate is not None
    value: Fraction | float = metric.estimate.value
    count, how = metric.total, metric.how
    share = Fraction(count or 0, metric.n_scored or 1)
    # The count does not determine a value that is not the mean.
    if count is not None and math.isclose(value, share, rel_tol=1e-9, abs_tol=1e-12):
        value = share
    else:
        count = None
    limits = how.known_limits if how is not None and how.is_mean else None
    if how is None and count is not None:  # of a group, whose tasks are known shares
        limits = (0.0, 1.0)
    return GateEstimate(
        value=value,
        n=metric.n_scored,
        count=count,
        range=limits or (-math.inf, math.inf),
    )


def _counted_as(point: GateEstimate, estimate: GateEstimate) -> GateEstimate:
    """The estimate with the exact number and the number of documents."""
    return replace(estimate, value=point.value, n=point.n, count=point.count)


def estimate_over_reruns(gate: Gate, point: GateEstimate) -> GateEstimate:
    """A mean over reruns on the same documents.

    The variance of a proportion of documents with a flip rate is half that rate per
    document; of other means, half the mean square of their changes.
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
    """The method, for reasons: the variation between two runs."""
    rate = gate.flip_rate or 0.0
    if is_share:
        return f"flip rate {rate:g}"
    return f"documents change by {math.sqrt(rate):.3g} between runs"


def estimate_metric(
    metric: MetricResult, point: GateEstimate, values: Sequence[Any], labels: Labels
) -> GateEstimate:
    """A metric over other documents of the same population. ``values``: one for each
    scored document, in order; empty if unknown."""
    if point.is_share and point.count is not None:
        return estimate_proportion(point.count, point.n, values, labels)
    try:
        estimate = _by_values(metric.how, values, labels) if values else None
    except (EvalsError, ValueError, TypeError, ArithmeticError) as error:
        why = f"{metric.key} has no confidence limits: {error}"
        raise InvalidGateError(why) from error
    if estimate is not None:
        return _varied(metric, estimate)
    if labels is not None:
        why = f"{metric.key} has no value per document, so cluster has no effect"
        raise InvalidGateError(why)
    return _by_own_stderr(metric, point)


def _by_values(
    how: Metric | None, values: Sequence[Any], labels: Labels
) -> GateEstimate | None:
    if how is None:
        return None
    ends = limits_of(values, how.known_limits)
    if how.is_mean:
        if ends is not None:
            return estimate_bounded(values, labels, ends)
        assumed = assumed_range(values)
        found = estimate_bounded(values, labels, assumed)
        return replace(found, notes=(assumption(assumed),))
    totals = totals_of(how, values)
    if totals is not None:
        if how.ratio is not None:
            return estimate_ratio(how.ratio, totals, labels)
        return estimate_totals(totals, labels)
    numbered = how.number is not None and labels is None
    return estimate_number(how, values) if numbered else None


def _varied(metric: MetricResult, estimate: GateEstimate) -> GateEstimate:
    if estimate.method == NO_VARIANCE:
        raise InvalidGateError(
            f"{metric.key} is the same in all {metric.n_scored} documents, so its "
            "variance is unknown"
        )
    how = metric.how
    if how is not None and not any(map(math.isfinite, estimate.range)):
        return replace(estimate, range=how.span)
    return estimate


def estimate_proportion(
    count: int, n: int, values: Sequence[Any], labels: Labels
) -> GateEstimate:
    """A proportion, by the exact binomial distribution if documents are independent.
    ``count``: documents with value 1. ``values``: of all of them; empty if unknown."""
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
    """By the metric's own standard error: Student's t for a mean."""
    estimate, n = metric.estimate, point.n
    assert estimate is not None
    if not 0 < (estimate.stderr or 0.0) < math.inf:
        raise InvalidGateError(f"{metric.key} has no standard error")
    is_mean = estimate.method == "analytic" and n > 1
    df = n - 1 if is_mean else math.inf
    ends = estimate.range or (-math.inf, math.inf)
    spread = NormalEstimate(float(point.value), estimate.stderr or 0.0, df, *ends)
    about = f", approximate for {n} documents" if n < FEW else ""
    method = f"{'t' if is_mean else 'normal'}{about}"
    return GateEstimate(value=point.value, spread=spread, method=method, range=ends)


def _by_repeats(
    gate: Gate, seen: Observations, point: GateEstimate
) -> GateEstimate | None:
    """The mean of all answers over reruns on the same documents, by the variance
    between the answers to each document; ``None`` for other gates, and if a document
    has fewer than two answers."""
    if gate.reducer != "mean" or gate.over != "benchmark" or gate.flip_rate is not None:
        return None
    groups = [
        score.repeats[:1] if score.is_deterministic else score.repeats
        for score in seen.scores
    ]
    least = min(map(len, groups), default=0)
    if least < 2:
        return None
    every = [value for values in groups for value in values]
    known = limits_of(every, seen.metric.known_limits)
    ends = known or assumed_range(every)
    estimate = GateEstimate(
        value=point.value,
        spread=mean_over_reruns(groups, ends),
        method=f"{least} answers to each document",
        range=ends,
        notes=() if known else (assumption(ends),),
    )
    return _counted_as(point, estimate)


def estimate_labelled(gate: Gate, seen: Observations) -> GateEstimate:
    """The estimate of a judge's mean, corrected by human labels of a random sample
    (prediction-powered inference): it is about the opinion of people, not the judge's.

    Such a gate always compares confidence limits: over the run they cover the judge's
    error, over the population the documents' sampling error too.
    """
    assert seen.result is not None
    metric, rated = seen.metric, rated_documents(seen.result, seen.metric)
    assert rated is not None
    if fault := labels_fault(gate) or rated.fault:
        raise InvalidGateError(fault)
    spread = _spread(gate, rated, seen)
    run = spread
    if gate.over == "population":
        run = mean_of_run(rated.human, rated.judge, rated.others)
    return GateEstimate(
        value=spread.value,
        n=metric.n_scored,
        spread=spread,
        method=METHOD,
        range=(0.0, 1.0),
        n_labels=len(rated.human),
        judge_limits=run.interval(gate.confidence),
    )


def _spread(gate: Gate, rated: RatedDocuments, seen: Observations) -> RectifiedMean:
    human, judge, others = rated.human, rated.judge, rated.others
    if gate.over == "run":
        return mean_of_run(human, judge, others)
    clusters = seen.clusters(gate.cluster, [*rated.labelled, *rated.unlabelled])
    if clusters is None:
        return mean_of_population(human, judge, others)
    labelled, rest = clusters[: len(human)], clusters[len(human) :]
    both = {*labelled} & {*rest}
    if both:
        raise InvalidGateError(
            f"{gate.cluster} {min(both)!r} has documents with and without a human "
            f"label: draw whole clusters ({gate.cluster}) at random and label all "
            "their documents"
        )
    return mean_of_population(human, judge, others, clusters=(labelled, rest))
