"""The estimate of a change: the same documents in a baseline and in this run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

from pytest_evals.core.gate import Gate, Unit
from pytest_evals.core.metric import Metric, Totals
from pytest_evals.errors import EvalsError
from pytest_evals.gates.estimate.sums import (
    NEGLIGIBLE,
    assumed_range,
    assumption,
    estimate_bounded,
    estimate_number,
    estimate_totals,
    limits_of,
    score_of,
    totals_of,
)
from pytest_evals.gates.estimate.value import NO_FLIP_RATE, flip_text
from pytest_evals.gates.observations import Observations, pairs_of
from pytest_evals.gates.terms import (
    NO_VARIANCE,
    ChangeEstimate,
    InvalidGateError,
    Pairs,
    antilog,
    has_limits,
    without_variance,
)
from pytest_evals.stats.averages import Labels, mean
from pytest_evals.stats.interval_methods import (
    ExactValue,
    NormalEstimate,
    WidestInterval,
)
from pytest_evals.stats.paired_proportions import PairedProportions

_ROUNDING = 1e-9


def estimate_change(gate: Gate, seen: Observations) -> ChangeEstimate:
    """The estimated change of a task's metric since a baseline."""
    metric, pairs, reference = seen.metric, pairs_of(gate, seen), seen.reference
    assert reference is not None
    assert metric.how is not None
    before = {**dict(zip(pairs.positions, pairs.old, strict=True)), **pairs.lost}
    seen.check_range(gate, before, f" in {reference.baseline!r}")
    _check_drops(gate, seen, pairs)
    labels = seen.clusters(gate.cluster, pairs.positions)
    only_number = gate.over != "population"
    try:
        change = paired_change(
            metric.how,
            pairs.old,
            pairs.new,
            labels,
            only_number=only_number,
            largest_drop=gate.largest_drop,
        )
    except (EvalsError, ValueError, TypeError, ArithmeticError, LookupError) as error:
        why = f"{metric.key} cannot be compared: {error}"
        raise InvalidGateError(why) from error
    change = replace(_over_reruns(gate, change), pairs=pairs)
    constant = change.spread if isinstance(change.spread, ExactValue) else None
    if has_limits(gate) and constant and abs(constant.value) > NEGLIGIBLE:
        raise InvalidGateError(
            f"{gate.metric} has changed by the same in all {change.n} documents, so "
            "its variance is unknown; over: run compares the number"
        )
    return change


def _check_drops(gate: Gate, seen: Observations, pairs: Pairs) -> None:
    largest, key, how = gate.largest_drop, seen.metric.key, seen.metric.how
    if largest is None:
        return
    assert gate.margin is not None
    old, new, fault = [*pairs.old, *pairs.lost.values()], pairs.new, ""
    limits = how and how.is_mean and limits_of([*old, *new], how.known_limits)
    if not limits:
        raise InvalidGateError(
            f"largest_drop needs scores in a known range, which {key} has not; "
            "range: [lowest, highest] in the gate sets it"
        )
    allowed, triples = gate.margin.allowed(mean(old)), zip(*pairs[:3], strict=True)
    above = [(a - b, at) for at, a, b in triples if a - b > largest + _ROUNDING]
    if {*old, *new} <= {0, 1} and limits == (0, 1):
        fault = (
            "largest_drop is for scores between correct and wrong: an answer that "
            f"becomes wrong loses 1, and {key} is 0 or 1 in all documents"
        )
    elif allowed >= largest:
        fault = (
            f"largest_drop {largest:g} is not above the allowed drop {allowed:.4g}: "
            "the gate would pass by assumption alone"
        )
    elif above:
        drop, at = max(above)
        more = f" (and {len(above) - 1} more)" if len(above) > 1 else ""
        fault = (
            f"document {seen.ids[at]!r}{more} lost {drop:.4g}, and largest_drop "
            f"assumes that no document loses more than {largest:g}: remove it or set "
            "it higher"
        )
    if fault:
        raise InvalidGateError(fault)


def paired_change(
    how: Metric,
    old: Sequence[Any],
    new: Sequence[Any],
    labels: Labels,
    *,
    only_number: bool = False,
    largest_drop: float | None = None,
) -> ChangeEstimate:
    """The change of a metric, without the design of a gate.

    Args:
        only_number: Whether confidence limits are optional.
        largest_drop: Assumed bound of the drop of each value.

    Raises:
        ValueError: There is no number, or there are no confidence limits.
    """
    ends = limits_of([*old, *new], how.known_limits)
    if how.is_mean and ends == (0, 1) and all(one in (0, 1) for one in (*old, *new)):
        return _of_shares(old, new, labels)
    if how.is_mean:
        return _of_means(how, old, new, labels, largest_drop)
    before, now = totals_of(how, old), totals_of(how, new)
    if before is not None and now is not None:
        return _of_sums(how, before, now, labels, only_number=only_number)
    return _of_number(how, old, new, labels, only_number=only_number)


def _of_shares(
    old: Sequence[Any], new: Sequence[Any], labels: Labels
) -> ChangeEstimate:
    """For proportions: the paired score test of Tango (1998)."""
    n, shares = len(old), paired_proportions(old, new)
    before, now = Fraction(int(sum(old)), n), Fraction(int(sum(new)), n)
    change = ChangeEstimate(
        value=now - before,
        n=n,
        before=before,
        now=now,
        shares=shares,
        spread=shares,
        method="paired score test",
        unit="points",
        range=(-1.0, 1.0),
    )
    if labels is None:
        return change
    differences = [float(b - a) for a, b in zip(old, new, strict=True)]
    clustered = estimate_bounded(differences, labels, (-1.0, 1.0))
    assert clustered.spread is not None
    return replace(
        change,
        spread=WidestInterval((shares, clustered.spread)),
        method=f"paired {clustered.method}",
        notes=clustered.notes,
    )


def paired_proportions(old: Sequence[Any], new: Sequence[Any]) -> PairedProportions:
    """The changed answers of the same documents, each value 0 or 1."""
    pairs = [*zip(old, new, strict=True)]
    return PairedProportions(pairs.count((0, 1)), pairs.count((1, 0)), len(pairs))


def _of_means(
    how: Metric,
    old: Sequence[Any],
    new: Sequence[Any],
    labels: Labels,
    largest_drop: float | None,
) -> ChangeEstimate:
    """For means; a known range of the values bounds their differences."""
    differences = [float(b) - float(a) for a, b in zip(old, new, strict=True)]
    before, now = mean(old), mean(new)
    if not (math.isfinite(before) and math.isfinite(now)):
        raise ValueError(f"it was {before} and is {now}")
    ends = limits_of([*old, *new], how.known_limits)
    low, high = ends or assumed_range([*old, *new])
    width = (-min(high - low, largest_drop or math.inf), high - low)
    notes = [] if ends else [assumption((low, high))]
    if largest_drop is not None:
        notes.append(f"assumes that no document loses more than {largest_drop:g}")
        differences = [max(width[0], one) for one in differences]  # rounding errors
    estimate = estimate_bounded(differences, labels, width)
    is_share = all(0 <= one <= 1 for one in (ends or (*old, *new)))
    return ChangeEstimate(
        value=estimate.value,
        n=len(old),
        before=before,
        now=now,
        spread=estimate.spread,
        method=f"paired {estimate.method}",
        range=estimate.range,
        notes=tuple(notes),
        unit="points" if is_share else "plain",
    )


def _of_sums(
    how: Metric, before: Totals, now: Totals, labels: Labels, *, only_number: bool
) -> ChangeEstimate:
    """For a number that is computed from sums; documents are resampled in pairs."""
    middle = len(before.columns)
    both = replace(
        now,
        columns=(*before.columns, *now.columns),
        kinds=[(*a, *b) for a, b in product(before.kinds, now.kinds)],
        score=lambda sums: now.score(sums[middle:]) - before.score(sums[:middle]),
    )
    values = [_value(totals) for totals in (before, now)]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"it was {values[0]} and is {values[1]}")
    try:
        estimate = estimate_totals(both, labels)
    except ValueError:
        if not only_number:
            raise
        estimate = without_variance(score_of(both))
    assert estimate.spread is not None
    difference = estimate.spread.value
    return ChangeEstimate(
        value=math.expm1(difference) if now.is_log else difference,
        n=len(now.columns[0]),
        before=values[0],
        now=values[1],
        spread=estimate.spread,
        method=_paired(estimate.method),
        scale="log1p" if now.is_log else "plain",
        notes=estimate.notes,
        unit=_unit(how, now, (*values, *before.columns[0], *now.columns[0])),
    )


def _paired(method: str) -> str:
    return method if method == NO_VARIANCE else f"paired {method}"


def _value(totals: Totals) -> float:
    score = score_of(totals)
    return antilog(score) if totals.is_log else score


def _unit(how: Metric, totals: Totals, numbers: Sequence[float]) -> Unit:
    """Points for numbers between 0 and 1, percent for perplexities."""
    if totals.is_log:
        return "percent"
    if how.is_mean:
        return "points" if all(0 <= one <= 1 for one in numbers) else "plain"
    is_coefficient = not totals.is_ratio and all(abs(one) <= 1 for one in numbers)
    return "points" if is_coefficient else "plain"


def _of_number(
    how: Metric,
    old: Sequence[Any],
    new: Sequence[Any],
    labels: Labels,
    *,
    only_number: bool,
) -> ChangeEstimate:
    number = how.number
    if number is None:
        raise ValueError("it is not computed from the values of documents")
    if labels is not None:
        raise ValueError("it is not a sum over documents, so cluster has no effect")
    pairs = list(zip(old, new, strict=True))

    def difference(some: Sequence[Any]) -> float:
        return number([b for _, b in some]) - number([a for a, _ in some])

    both = replace(how, number=difference, statistic=_differences(how))
    try:
        estimate = estimate_number(both, pairs)
    except ValueError:
        if not only_number:
            raise
        estimate = without_variance(difference(pairs))
    return ChangeEstimate(
        value=estimate.value,
        n=len(pairs),
        before=number(old),
        now=number(new),
        spread=estimate.spread,
        method=_paired(estimate.method),
    )


def _differences(how: Metric) -> Callable[[Sequence[Any]], Callable[[Any], Any]] | None:
    """Pairs of values → their changes in many resamples at once."""
    statistic = how.statistic
    if statistic is None:
        return None

    def of_pairs(pairs: Sequence[Any]) -> Callable[[Any], Any]:
        before, now = (statistic(values) for values in zip(*pairs, strict=True))
        return lambda counts: now(counts) - before(counts)

    return of_pairs


def _over_reruns(gate: Gate, change: ChangeEstimate) -> ChangeEstimate:
    """The change with the variance between reruns, if that is the gate's inference
    target.

    The variance of each mean is half the flip rate per document; of other numbers, half
    the mean square of their changes.
    """
    if gate.over != "benchmark" or gate.flip_rate is None:
        return change
    is_share = change.shares is not None
    if not is_share and (not gate.measured or change.scale != "plain"):
        raise InvalidGateError(NO_FLIP_RATE)
    spread = NormalEstimate(float(change.value), math.sqrt(gate.flip_rate / change.n))
    return replace(change, spread=spread, method=flip_text(gate, is_share=is_share))
