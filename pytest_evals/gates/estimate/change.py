"""The estimate of a change: the same documents in a baseline and in this run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate, Outcome, Unit
from pytest_evals.core.metric import Metric, MetricResult, Totals
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import EvalsError, did_you_mean
from pytest_evals.gates.documents import (
    InvalidGateError,
    labels_of,
    reduced_reference,
    values_of,
)
from pytest_evals.gates.estimate.estimate import (
    NO_VARIANCE,
    ChangeEstimate,
    antilog,
    without_variance,
)
from pytest_evals.gates.estimate.sums import (
    Labels,
    estimate_bounded,
    estimate_number,
    estimate_totals,
    limits_of,
    totals_of,
)
from pytest_evals.gates.estimate.value import NO_FLIP_RATE, flip_text
from pytest_evals.stats.averages import mean
from pytest_evals.stats.interval_methods import NormalEstimate, WidestInterval
from pytest_evals.stats.paired_proportions import PairedProportions


class Pairs(NamedTuple):
    """The documents of both runs.

    Args:
        positions: Documents with a score in both.
        old: Their values in the baseline.
        new: Their values now.
        lost: Position of each document without a score now → its value in the baseline.
    """

    positions: list[int]
    old: list[Any]
    new: list[Any]
    lost: dict[int, Any]


def estimate_change(
    gate: Gate, metric: MetricResult, result: TaskResult, reference: Reference
) -> tuple[ChangeEstimate, Pairs]:
    """How far a task's metric has changed since a baseline.

    Args:
        gate: The gate.
        metric: The metric, reduced if the gate has a reducer.
        result: The task.
        reference: The task in the baseline.

    Raises:
        InvalidGateError: The runs cannot be compared, or nothing is known of the
            variance of the change.
    """
    if reference.fault and reference.is_replaced:
        why = f"not compared, since this run becomes the baseline: {reference.fault}"
        raise InvalidGateError(why, Outcome.SKIPPED)
    if reference.fault:
        raise InvalidGateError(reference.fault)
    pairs = pairs_of(gate, metric, result, reference)
    labels = labels_of(result, gate.cluster, pairs.positions)
    assert metric.how is not None
    only_number = gate.over != "population" and gate.each is None
    try:
        found = _change(
            metric.how, pairs.old, pairs.new, labels, only_number=only_number
        )
    except (EvalsError, ValueError, TypeError, ArithmeticError, LookupError) as error:
        why = f"{metric.key} cannot be compared: {error}"
        raise InvalidGateError(why) from error
    found = replace(
        _over_reruns(gate, found),
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    if pairs.lost:
        found = replace(found, missing=_missing(gate, metric, result, pairs, found))
    return found, pairs


def pairs_of(
    gate: Gate, metric: MetricResult, result: TaskResult, reference: Reference
) -> Pairs:
    """The values of both runs, paired.

    Raises:
        InvalidGateError: They are not of the same documents, or there are none.
    """
    name = reference.baseline
    old = reference.values.get(metric.key)
    if old is not None and gate.reducer:
        old = reduced_reference(gate, metric, reference)
    if old is None:
        hint = did_you_mean(metric.key, [*reference.values])
        known = hint or f"; it has {', '.join(reference.values) or 'none'}"
        raise InvalidGateError(f"baseline {name!r} has no {metric.key}{known}")
    new = values_of(result, metric.key)
    if not new or metric.how is None:
        raise InvalidGateError(
            f"{metric.key} has no value per document, so nothing can be paired"
        )
    included = [record for record in result.records if not record.excluded]
    absent = [record.doc.id for record in included if record.index not in old]
    if absent:
        raise InvalidGateError(
            f"{_named(absent)} had no score in baseline {name!r}; save it again from a "
            "run without errors"
        )
    excluded = [r.doc.id for r in result.records if r.excluded and r.index in old]
    if excluded:
        why = f"{_named(excluded)} counted in baseline {name!r} but not now"
        raise InvalidGateError(why)
    lost = {r.index: old[r.index] for r in included if r.index not in new}
    return Pairs([*new], [old[i] for i in new], [*new.values()], lost)


def _named(ids: Sequence[str]) -> str:
    n = len(ids)
    listed = ", ".join(ids[:3]) + ", …" * (n > 3)
    return f"{n} document{'s' * (n > 1)} ({listed})"


def _change(
    how: Metric,
    old: Sequence[Any],
    new: Sequence[Any],
    labels: Labels,
    *,
    only_number: bool = False,
) -> ChangeEstimate:
    """The change of a metric.

    Args:
        how: The metric.
        old: The documents' values in the baseline.
        new: The same documents' values now.
        labels: Their clusters.
        only_number: Whether confidence limits may be missing.

    Raises:
        ValueError: There is no number, or there are no confidence limits.
    """
    if how.is_mean and all(value in (0, 1) for value in (*old, *new)):
        return _of_shares(old, new, labels)
    ends = limits_of([*old, *new], how.known_limits)
    if how.is_mean and ends is not None:
        return _of_bounded(old, new, labels, ends)
    before, now = totals_of(how, old), totals_of(how, new)
    if before is not None and now is not None:
        return _of_sums(how, before, now, labels, only_number=only_number)
    return _of_number(how, old, new, labels, only_number=only_number)


def _of_shares(
    old: Sequence[Any], new: Sequence[Any], labels: Labels
) -> ChangeEstimate:
    """Of proportions: the paired score test of Tango (1998)."""
    pairs = list(zip(old, new, strict=True))
    n = len(pairs)
    shares = PairedProportions(pairs.count((0, 1)), pairs.count((1, 0)), n)
    before, now = Fraction(int(sum(old)), n), Fraction(int(sum(new)), n)
    found = ChangeEstimate(
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
        return found
    differences = [float(b - a) for a, b in pairs]
    clustered = estimate_bounded(differences, labels, (-1.0, 1.0))
    assert clustered.spread is not None
    return replace(
        found,
        spread=WidestInterval((shares, clustered.spread)),
        method=f"paired {clustered.method}",
        notes=clustered.notes,
    )


def _of_bounded(
    old: Sequence[Any], new: Sequence[Any], labels: Labels, ends: tuple[float, float]
) -> ChangeEstimate:
    """Of means of values in a known range, which limits their differences too."""
    differences = [float(b) - float(a) for a, b in zip(old, new, strict=True)]
    width = ends[1] - ends[0]
    found = estimate_bounded(differences, labels, (-width, width))
    return ChangeEstimate(
        value=found.value,
        n=len(old),
        before=mean(old),
        now=mean(new),
        spread=found.spread,
        method=f"paired {found.method}",
        range=found.range,
        notes=found.notes,
        unit="points" if ends == (0, 1) else "plain",
    )


def _of_sums(
    how: Metric, before: Totals, now: Totals, labels: Labels, *, only_number: bool
) -> ChangeEstimate:
    """Of a number that is computed from sums; documents are resampled in pairs."""
    middle = len(before.columns)
    both = replace(
        now,
        columns=(*before.columns, *now.columns),
        score=lambda sums: now.score(sums[middle:]) - before.score(sums[:middle]),
    )
    values = [_value(totals) for totals in (before, now)]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"it was {values[0]} and is {values[1]}")
    try:
        found = estimate_totals(both, labels)
    except ValueError:
        if not only_number:
            raise
        found = without_variance(_score(both))
    assert found.spread is not None
    difference = found.spread.value
    return ChangeEstimate(
        value=math.expm1(difference) if now.is_log else difference,
        n=len(now.columns[0]),
        before=values[0],
        now=values[1],
        spread=found.spread,
        method=_paired(found.method),
        scale="log1p" if now.is_log else "plain",
        notes=found.notes,
        unit=_unit(how, now, (*values, *before.columns[0], *now.columns[0])),
    )


def _paired(method: str) -> str:
    return method if method == NO_VARIANCE else f"paired {method}"


def _score(totals: Totals) -> float:
    return totals.score([math.fsum(column) for column in totals.columns])


def _value(totals: Totals) -> float:
    score = _score(totals)
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
        found = estimate_number(both, pairs)
    except ValueError:
        if not only_number:
            raise
        found = without_variance(difference(pairs))
    return ChangeEstimate(
        value=found.value,
        n=len(pairs),
        before=number(old),
        now=number(new),
        spread=found.spread,
        method=_paired(found.method),
    )


def _differences(how: Metric) -> Callable[[Sequence[Any]], Callable[[Any], Any]] | None:
    """Pairs of values → their changes in many resamples at once."""
    statistic = how.statistic
    if statistic is None:
        return None

    def of_pairs(pairs: Sequence[Any]) -> Callable[[Any], Any]:
        before, now = (statistic(values) for values in zip(*pairs, strict=True))
        return lambda at: now(at) - before(at)

    return of_pairs


def _over_reruns(gate: Gate, found: ChangeEstimate) -> ChangeEstimate:
    """The change with the variance of another run, if the gate counts that.

    The variance of each mean is half the flip rate per document; of other numbers, half
    the mean square of their changes.
    """
    if gate.over != "benchmark" or gate.flip_rate is None:
        return found
    is_share = found.shares is not None
    if not is_share and (not gate.measured or found.scale != "plain"):
        raise InvalidGateError(NO_FLIP_RATE)
    spread = NormalEstimate(float(found.value), math.sqrt(gate.flip_rate / found.n))
    return replace(found, spread=spread, method=flip_text(gate, is_share=is_share))


def _missing(
    gate: Gate,
    metric: MetricResult,
    result: TaskResult,
    pairs: Pairs,
    found: ChangeEstimate,
) -> tuple[ChangeEstimate, ...] | None:
    """The change for the extreme values of the documents without a score, from the
    lowest to the highest; ``None`` if that is not known."""
    assert metric.how is not None
    if found.shares is not None and not gate.cluster:
        return tuple(
            _over_reruns(gate, one)
            for one in _shares_with_lost(found, found.shares, [*pairs.lost.values()])
        )
    limits = metric.how.known_limits
    is_mean = metric.how.is_mean and limits is not None
    ends: Sequence[float] = (0, 1) if found.shares is not None else limits or ()
    if not (found.shares is not None or is_mean) or not all(map(math.isfinite, ends)):
        return None
    try:
        labels = labels_of(result, gate.cluster, [*pairs.positions, *pairs.lost])
    except InvalidGateError:  # the cluster of a lost document is not known
        return None
    old, n = [*pairs.old, *pairs.lost.values()], len(pairs.lost)
    return tuple(
        _over_reruns(gate, _change(metric.how, old, [*pairs.new, *[end] * n], labels))
        for end in ends
    )


def _shares_with_lost(
    found: ChangeEstimate, shares: PairedProportions, lost: Sequence[Any]
) -> list[ChangeEstimate]:
    """The paired table with each extreme: none, one or all of the lost documents flip,
    where the standard error is smallest or largest."""
    were_right = sum(map(bool, lost))
    were_wrong = len(lost) - were_right
    n = found.n + len(lost)
    before = Fraction(round(found.before * found.n) + were_right, n)
    flipped = product(
        {0, min(1, were_wrong), were_wrong}, {0, min(1, were_right), were_right}
    )
    changes = []
    for gained, dropped in sorted(flipped, key=lambda both: both[0] - both[1]):
        end = PairedProportions(shares.gained + gained, shares.lost + dropped, n)
        difference = Fraction(int(end.gained - end.lost), n)
        changes.append(
            replace(
                found,
                value=difference,
                n=n,
                before=before,
                now=before + difference,
                shares=end,
                spread=end,
            )
        )
    return changes
