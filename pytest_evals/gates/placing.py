"""Values of documents to a number and where it lies.

Which statistics fit which metric: shares of right answers, means, ratios of sums, what
is computed from sums, and the rest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Metric, MetricResult, Totals
from pytest_evals.errors import EvalsError
from pytest_evals.gates.noise import NO_TURNS
from pytest_evals.gates.reading import Reading
from pytest_evals.gates.unsound import UnsoundError
from pytest_evals.stats.clusters import clustered_stderr
from pytest_evals.stats.spread import Located, Share, Spread, Still

if TYPE_CHECKING:
    from pytest_evals.stats.replicates import Replicates

__all__ = [
    "FEW",
    "NEGLIGIBLE",
    "STILL",
    "Labels",
    "Placed",
    "antilog",
    "few_clusters",
    "place",
    "place_between_runs",
    "place_noise",
    "place_number",
    "place_totals",
    "ratio",
    "still",
    "totals_of",
    "turns",
]

Labels = Sequence[Hashable] | None
"""The cluster of each document; ``None`` where documents do not hang together."""
FEW = 30
"""Documents below which a corpus metric's noise cannot be told, and that of a mean only
about right."""
FEW_CLUSTERS = 20
LEAST_RESAMPLED = 10
"""Documents below which resamples hardly leave those that there are: Student's t is
wider."""
NEGLIGIBLE = 1e-12
"""Part of a number that is rounding and no difference."""
ENOUGH = 200
"""Documents from which the slope of a corpus metric tells its noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A number, and where it lies as far as its noise goes.

    Args:
        spread: On the scale on which it is compared.
        method: How that was obtained.
        is_log: Whether that scale is the logarithm.
        notes: What a reader should know of it.
    """

    spread: Spread
    method: str
    is_log: bool = False
    notes: tuple[str, ...] = ()


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
        return _share(reading, values, labels)
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


def totals_of(how: Metric, values: Sequence[Any]) -> Totals | None:
    """What the documents add to the sums that a metric is computed from."""
    if how.totals is not None:
        return how.totals(values)
    if not how.is_mean:
        return None
    return Totals(columns=(values, [1.0] * len(values)), score=ratio, is_ratio=True)


def antilog(value: float) -> float:
    """What has this logarithm; infinite where a double cannot hold it."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def ratio(sums: Sequence[float]) -> float:
    """The first sum over the second."""
    return sums[0] / sums[1]


def _share(reading: Reading, values: Sequence[Any], labels: Labels) -> Placed:
    """By Wilson; of documents that hang together there are fewer than it seems."""
    value, n = float(reading.value), reading.n_scored
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
        spread=Share(value, n_effective),
        method="clustered Wilson",
        notes=(note, *few_clusters(found.n_clusters)),
    )


def few_clusters(n_clusters: int) -> tuple[str, ...]:
    """A remark where there are too few for the interval to be exact."""
    if n_clusters >= FEW_CLUSTERS:
        return ()
    return (f"only {n_clusters} clusters: the interval is approximate",)


def place_totals(totals: Totals, labels: Labels, *, bootstrap_below: int = 0) -> Placed:
    """Where a number that is computed from sums lies.

    Args:
        totals: What each document adds to the sums.
        labels: Clusters of the documents.
        bootstrap_below: Documents below which even a ratio of sums is not trusted to be
            normal.

    Raises:
        ValueError: There are too few documents, or they do not vary.
    """
    n = len(totals.columns[0])
    if n < (2 if totals.is_ratio else FEW):
        least = 2 if totals.is_ratio else FEW
        raise ValueError(f"it takes {least} documents, and there are {n}")
    n_units = n if labels is None else len({*labels})
    if n_units < 2:
        raise ValueError("one cluster says nothing of how clusters differ")
    enough = bootstrap_below if totals.is_ratio else ENOUGH
    if totals.is_ratio and n_units < LEAST_RESAMPLED:
        enough = 0
    if totals.is_smooth and (n_units >= enough or (labels and totals.is_ratio)):
        found = _by_slopes(totals, labels)
    else:
        found = _by_bootstrap(totals, labels)
    if not math.isfinite(found.spread.value):
        raise ValueError(f"it is {found.spread.value}, which is no finite number")
    about: tuple[str, ...] = ()
    if labels is None and n < FEW:
        about = (f"only {n} documents: the interval is approximate",)
    notes = few_clusters(n_units) if labels is not None else about
    return Placed(
        spread=found.spread,
        method=found.method,
        is_log=totals.is_log,
        notes=(*found.notes, *notes),
    )


def _by_slopes(totals: Totals, labels: Labels) -> Placed:
    from pytest_evals.stats.influence import influences

    deviations = influences(totals.columns, totals.score).tolist()
    n = len(deviations)
    value = totals.score([math.fsum(column) for column in totals.columns])
    clustered = clustered_stderr(deviations, labels or range(n))
    if not math.isfinite(clustered.stderr):
        raise ValueError("its slope is no finite number")
    if _is_nothing(clustered.stderr, value):
        if not _is_nothing(max(map(abs, deviations)), value):
            raise ValueError("documents differ, but no cluster differs from another")
        return still(value)
    method = "t" if totals.is_ratio else "delta method"
    notes: tuple[str, ...] = ()
    if labels is not None:
        method = f"clustered {method}"
        effect = f"design effect {clustered.design_effect:.3g}"
        notes = (f"{effect} over {clustered.n_clusters} clusters",)
    spread = Located(value, clustered.stderr, clustered.n_clusters - 1)
    return Placed(spread=spread, method=method, notes=notes)


def _by_bootstrap(totals: Totals, labels: Labels) -> Placed:
    from pytest_evals.stats.replicates import resample_sums

    columns = totals.columns
    if labels is not None:
        columns = [_summed(column, labels) for column in columns]
    found = resample_sums(columns, totals.score, corrected=totals.is_smooth)
    if _do_not_vary(found):
        return still(found.value)
    method = "BCa" if totals.is_smooth else "bootstrap"
    return Placed(
        spread=found, method=method if labels is None else f"clustered {method}"
    )


def _summed(column: Sequence[float], labels: Sequence[Hashable]) -> list[float]:
    sums: dict[Hashable, float] = {}
    for value, label in zip(column, labels, strict=True):
        sums[label] = sums.get(label, 0.0) + value
    return [*sums.values()]


def _is_nothing(distance: float, value: float) -> bool:
    """Whether rounding alone can be what is between two numbers of this size."""
    return distance <= NEGLIGIBLE * max(1.0, abs(value))


def _do_not_vary(found: Replicates) -> bool:
    if not found.ordered:
        return True
    return _is_nothing(found.ordered[-1] - found.ordered[0], found.value)


def still(value: float, *, is_log: bool = False) -> Placed:
    """A number whose noise is not counted, or of which there is none.

    Args:
        value: The number.
        is_log: Whether it is a logarithm.
    """
    return Placed(spread=Still(value), method=STILL, is_log=is_log)


STILL = "no document differs"
"""The method of a number that does not vary at all."""


def place_number(how: Metric, values: Sequence[Any]) -> Placed:
    """Where a number that is computed from no sums lies.

    Raises:
        ValueError: There are too few documents.
    """
    from pytest_evals.stats.replicates import resample

    n, number = len(values), how.number
    assert number is not None
    if n < FEW:
        raise ValueError(f"it takes {FEW} documents, and there are {n}")
    found = resample(n, lambda at: number([values[i] for i in at]), number(values))
    if _do_not_vary(found):
        return still(found.value)
    return Placed(spread=found, method="bootstrap")


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
