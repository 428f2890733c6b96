"""Confidence limits of numbers that are computed from sums over documents: means, F1,
BLEU. Bootstrap for all others, such as medians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from pytest_evals.core.metric import Metric, Ratio, Totals
from pytest_evals.gates.terms import (
    NO_VARIANCE,
    GateEstimate,
    antilog,
    without_variance,
)
from pytest_evals.stats.averages import (
    ClusteredStderr,
    Labels,
    cluster_sums,
    clustered_stderr,
    influences,
    slopes_of,
)
from pytest_evals.stats.interval_methods import (
    ExactValue,
    NormalEstimate,
    WidestInterval,
)
from pytest_evals.stats.mean_limits import bounded_mean, bounded_ratio

if TYPE_CHECKING:
    from pytest_evals.stats.bootstrap_limits import Replicates

NEGLIGIBLE = 1e-12  # relative size of differences that are rounding errors
FEW_CLUSTERS = 20
FEW = 30
"""With fewer documents, a corpus metric has no confidence limits, and those of other
means are approximate."""
MOST_RESAMPLED = 2000
"""With more documents, skewness of unbounded values does not matter: Student's t has
the nominal error rate."""
ENOUGH = 500
"""With fewer documents, rare large differences make the limits of perplexities and
other ratios without a range approximate."""
MOST_LABELS = 5
"""With more labels, pairs of labels are not counted as kinds of documents."""
UNSEEN = 30
"""A score of unknown range may be this many times as large as the largest one seen."""
UNKNOWN_RANGE = "the range of the scores is unknown"


def limits_of(
    values: Sequence[Any], limits: tuple[float, float] | None
) -> tuple[float, float] | None:
    """The range of the values of a mean, ``None`` if it is unknown or infinite, or a
    value is outside of it."""
    if limits is None or not all(map(math.isfinite, limits)):
        return None
    low, high = limits
    is_inside = all(isinstance(v, (int, float)) and low <= v <= high for v in values)
    return (low, high) if is_inside else None


def assumed_range(values: Sequence[float]) -> tuple[float, float]:
    """A range for scores of unknown range: rare large ones may not have been seen. It
    begins at 0 if none is negative."""
    high = UNSEEN * max(1.0, *map(abs, values))
    return (-high if min(values) < 0 else 0.0, high)


def assumption(ends: tuple[float, float]) -> str:
    """The note on limits over an assumed range of scores."""
    return (
        f"{UNKNOWN_RANGE}, so the confidence limits assume scores from {ends[0]:g} to "
        f"{ends[1]:g}; range: [lowest, highest] in the gate narrows them"
    )


def estimate_bounded(
    values: Sequence[float], labels: Labels, ends: tuple[float, float]
) -> GateEstimate:
    """Limits of a mean of values in a known range."""
    spread = bounded_mean(values, low=ends[0], high=ends[1], clusters=labels)
    method = "Gaffke"
    if labels is not None:
        deviations = [value - spread.value for value in values]
        method = f"clustered {method}, {_effect(clustered_stderr(deviations, labels))}"
    return GateEstimate(value=spread.value, spread=spread, method=method, range=ends)


def _effect(found: ClusteredStderr) -> str:
    effect, n = found.design_effect, found.n_clusters
    return f"design effect {effect:.3g} over {n} clusters"


def estimate_ratio(how: Ratio, totals: Totals, labels: Labels) -> GateEstimate:
    """Limits of a ratio of counts of documents, such as F1: exact if they are
    independent."""
    counts = [*zip(*totals.columns, strict=True)]
    most = max(1.0, *map(math.fsum, counts))
    kinds = [
        (above * most, below * most)
        for above, below in zip(how.above, how.below, strict=True)
        if below
    ]
    spread = bounded_ratio(
        [(_weighted(how.above, row), _weighted(how.below, row)) for row in counts],
        kinds,
        labels,
    )
    method = "Clopper-Pearson" if labels is None else "clustered Gaffke"
    return GateEstimate(
        value=spread.value, spread=spread, method=method, range=(0.0, 1.0)
    )


def _weighted(weights: Sequence[int], counts: Sequence[float]) -> float:
    return math.fsum(w * count for w, count in zip(weights, counts, strict=True))


def totals_of(how: Metric, values: Sequence[Any]) -> Totals | None:
    """The contributions of the documents to the sums that a metric is computed from."""
    if how.totals is not None:
        return how.totals(values)
    if not how.is_mean:
        return None
    return Totals(columns=(values, [1.0] * len(values)), score=ratio, is_ratio=True)


def score_of(totals: Totals) -> float:
    """The number of all documents; of a perplexity, its logarithm."""
    return totals.score([math.fsum(column) for column in totals.columns])


def ratio(sums: Sequence[float]) -> float:
    """The first sum over the second."""
    return sums[0] / sums[1]


def estimate_totals(totals: Totals, labels: Labels) -> GateEstimate:
    """Limits of a number that is computed from sums. Raises ``ValueError`` if there are
    too few documents, or they do not vary."""
    n = len(totals.columns[0])
    if n < (2 if totals.is_ratio else FEW):
        raise ValueError(f"it needs {2 if totals.is_ratio else FEW} documents, not {n}")
    n_units = n if labels is None else len({*labels})
    if n_units < 2:
        raise ValueError("a single cluster has no variance between clusters")
    estimate = None
    if totals.is_ratio and n_units <= MOST_RESAMPLED:
        estimate = _by_bootstrap_t(totals, labels)
    if totals.kinds:
        estimate = _with_kinds(totals, labels)
    if estimate is None and totals.is_smooth:
        estimate = _by_slopes(totals, labels)
    if estimate is None:
        estimate = _by_bootstrap(totals, labels)
    if not math.isfinite(estimate.value):
        raise ValueError(f"it is {estimate.value}, not a finite number")
    notes: tuple[str, ...] = ()
    few = FEW if labels is None else FEW_CLUSTERS
    if n_units < (ENOUGH if totals.is_ratio else few):
        units = "documents" if labels is None else "clusters"
        notes = (f"only {n_units} {units}: the confidence limits are approximate",)
    return replace(
        estimate,
        value=antilog(float(estimate.value)) if totals.is_log else estimate.value,
        scale="log" if totals.is_log else "plain",
        notes=(*estimate.notes, *notes),
    )


def _with_kinds(totals: Totals, labels: Labels) -> GateEstimate:
    """The delta method, never narrower than with one more document of the kind that
    lowers or raises the number most: near the ends of its range, too few documents
    determine the variance."""
    value = score_of(totals)
    slopes = slopes_of(totals.columns, totals.score)
    worst, best = (
        end(totals.kinds, key=lambda kind: float(slopes @ kind)) for end in (min, max)
    )
    found = _by_slopes(totals, labels)
    assert found.spread is not None
    spreads = [found.spread] if not isinstance(found.spread, ExactValue) else []
    for kind in (worst, best):
        columns = [[*c, one] for c, one in zip(totals.columns, kind, strict=True)]
        more = labels and [*labels, object()]
        moved = _by_slopes(replace(totals, columns=columns), more or None).spread
        assert moved is not None
        spreads.append(moved)
    return GateEstimate(
        value=value,
        spread=WidestInterval(tuple(spreads), value),
        method="delta method" if found.method == NO_VARIANCE else found.method,
        notes=found.notes,
    )


def _by_slopes(totals: Totals, labels: Labels) -> GateEstimate:
    deviations = influences(totals.columns, totals.score).tolist()
    n = len(deviations)
    value = score_of(totals)
    clustered = clustered_stderr(deviations, labels or range(n))
    if not math.isfinite(clustered.stderr):
        raise ValueError("its slope is not a finite number")
    if _is_nothing(clustered.stderr, value):
        if not _is_nothing(max(map(abs, deviations)) / n, value):
            raise ValueError("documents differ, but no cluster differs from another")
        return without_variance(value)
    method = "t" if totals.is_ratio else "delta method"
    if labels is not None:
        method = f"clustered {method}, {_effect(clustered)}"
    spread = NormalEstimate(value, clustered.stderr, clustered.n_clusters - 1)
    return GateEstimate(value=value, spread=spread, method=method)


def _by_bootstrap_t(totals: Totals, labels: Labels) -> GateEstimate | None:
    """For a ratio of two sums, or the change of one between two runs; ``None`` if the
    number is neither."""
    from pytest_evals.stats.bootstrap_limits import Quotient, bootstrap_t

    columns = _of_clusters(totals, labels)
    if len(columns) not in (2, 4):
        return None
    *before, above, below = columns
    value = totals.score([math.fsum(column) for column in columns])
    baseline = Quotient(*before) if before else None
    try:
        limits = bootstrap_t(Quotient(above, below), baseline)
    except ValueError:
        return without_variance(value)
    if not _is_nothing(limits.value - value, value):
        return None
    method = "bootstrap-t" if labels is None else "clustered bootstrap-t"
    return GateEstimate(value=value, spread=limits, method=method)


def _of_clusters(totals: Totals, labels: Labels) -> Sequence[Sequence[float]]:
    if labels is None:
        return totals.columns
    return [cluster_sums(column, labels) for column in totals.columns]


def _by_bootstrap(totals: Totals, labels: Labels) -> GateEstimate:
    from pytest_evals.stats.bootstrap_limits import resample_sums

    columns = _of_clusters(totals, labels)
    replicates = resample_sums(columns, totals.score)
    if _do_not_vary(replicates):
        return without_variance(replicates.value)
    method = "bootstrap" if labels is None else "clustered bootstrap"
    return GateEstimate(value=replicates.value, spread=replicates, method=method)


def _is_nothing(distance: float, value: float) -> bool:
    """Whether the difference of two numbers of this size can be a rounding error."""
    return abs(distance) <= NEGLIGIBLE * max(1.0, abs(value))


def _do_not_vary(replicates: Replicates) -> bool:
    every = replicates.ordered
    return not every or _is_nothing(every[-1] - every[0], replicates.value)


def estimate_number(how: Metric, values: Sequence[Any]) -> GateEstimate:
    """Limits of a number that is not computed from sums. Raises ``ValueError`` if there
    are too few documents."""
    from pytest_evals.stats.bootstrap_limits import resample, resampled_one_by_one

    n, number = len(values), how.number
    assert number is not None
    if n < FEW:
        raise ValueError(f"it needs {FEW} documents, not {n}")

    def resampled(some: Sequence[Any]) -> Replicates:
        if how.statistic is None:
            statistic = resampled_one_by_one(some, number)
        else:
            statistic = how.statistic(some)
        return resample(len(some), statistic, number(some))

    value = number(values)
    samples = [[*values]]
    with suppress(ArithmeticError, ValueError):  # of the user's function
        ends = sorted((number([*values, one]), one) for one in _label_pairs(values))
        samples += [[*values, one] for _, one in (ends[:1] + ends[-1:])]
    spreads = [one for one in map(resampled, samples) if not _do_not_vary(one)]
    if not spreads:
        return without_variance(value)
    spread = WidestInterval(tuple(spreads), value)
    return GateEstimate(value=value, spread=spread, method="bootstrap")


def _label_pairs(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """All pairs of a true and a predicted label, if the values are pairs of few
    labels."""
    if not all(type(one) in (tuple, list) and len(one) == 2 for one in values):
        return []
    every = [label for pair in values for label in pair]
    if not all(isinstance(label, (int, str)) for label in every):
        return []
    labels = dict.fromkeys(every)
    return [*product(labels, repeat=2)] if len(labels) <= MOST_LABELS else []
