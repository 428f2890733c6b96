"""The estimate of a gate: by its keys, of a task's value or of its change; the same of
the tasks of a group, combined.

A random sample of the documents of a complete baseline estimates the whole benchmark:
the baseline's known number, and the change on the sample. Answers change in few
documents, so the change varies much less than the number itself. Of the documents that
were wrong in the baseline some are gained, of the others some are lost: both counts
have exact hypergeometric limits, which are combined (MOVER).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import islice, product
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Score
from pytest_evals.gates.estimate.change import estimate_change
from pytest_evals.gates.estimate.combinations import (
    combined,
    combined_change,
    estimate_published,
)
from pytest_evals.gates.estimate.sums import estimate_bounded, limits_of
from pytest_evals.gates.estimate.value import estimate_point, estimate_value
from pytest_evals.gates.observations import GroupObservations, Observations, pairs_of
from pytest_evals.gates.terms import (
    NO_BRACKET,
    Bracket,
    ChangeEstimate,
    GateEstimate,
    InvalidGateError,
    Pairs,
    compares_limits,
)
from pytest_evals.stats.averages import mean
from pytest_evals.stats.independent import (
    IndependentDifference,
    SampledShare,
    enclosing,
)
from pytest_evals.stats.interval_methods import IntervalEstimate
from pytest_evals.stats.paired_proportions import PairedProportions

MOST_TRIED = 100
"""Ways to complete the scores that are all tried."""


def estimate_gate(
    gate: Gate, seen: Observations | GroupObservations
) -> tuple[GateEstimate, Bracket]:
    """The estimate of a gate, and the estimates for the possible values of the
    documents without a score, from the lowest to the highest: none without such
    documents, or if the range of the values, or a cluster, is unknown.

    Raises:
        InvalidGateError: The runs cannot be compared, or the variance is unknown.
    """
    if isinstance(seen, GroupObservations):
        estimate = _of_group(gate, seen)
    else:
        estimate = _of_single(gate, seen)
    bracket = NO_BRACKET
    if estimate.n_missing and (gate.bounds or gate.margin):
        with suppress(InvalidGateError):
            bracket = _bracket(gate, seen, estimate)
    if gate.published is None:
        return estimate, bracket
    whole, *others = (
        estimate_published(gate, seen, one) for one in (estimate, *bracket.estimates)
    )
    return whole, bracket._replace(estimates=others)


def _bracket(
    gate: Gate, seen: Observations | GroupObservations, estimate: GateEstimate
) -> Bracket:
    """All estimates, or those between whose limits the limits of all others are.

    Raises:
        InvalidGateError: The possible scores, or these limits, are unknown.
    """
    is_group = isinstance(seen, GroupObservations)
    tasks = [seen] if isinstance(seen, Observations) else [o.seen for o in seen.members]

    def completed(ways: Sequence[Collection[int]]) -> GateEstimate:
        """The estimate with these documents of each task at the highest score."""
        whole = [*map(_completed, tasks, ways)]
        if isinstance(seen, GroupObservations):
            return _of_group(gate, seen.with_tasks(whole))
        return _of_single(gate, whole[0])

    # Limits of a task rise with its scores, so one threshold needs only the extremes.
    if is_group or (len(gate.bounds) > 1 and not gate.cluster):
        ways = [[*islice(_ways(one), MOST_TRIED + 1)] for one in tasks]
        is_counted = all(estimate_point(one.metric).is_share for one in tasks)
        if is_counted and math.prod(map(len, ways)) <= MOST_TRIED:
            return Bracket([*map(completed, product(*ways))], is_complete=True)
    low = completed([()] * len(tasks))
    high = completed([range(one.metric.n_lost) for one in tasks])
    if not is_group or low.spread is None or not compares_limits(gate, estimate):
        return Bracket((low, high))
    ends = enclosing(low.spread, high.spread) if high.spread else None
    if ends is None:
        raise InvalidGateError("the limits with other scores are unknown")
    # Those of a group do not: a score far from the others widens both of them.
    return Bracket((replace(low, spread=ends[0]), replace(high, spread=ends[1])))


def _ways(seen: Observations) -> Iterator[frozenset[int]]:
    """Yield which of the documents without a value get the highest one, in all ways
    that differ for a gate: documents of one cluster and one value in the baseline
    are alike."""
    old = seen.reference.values.get(seen.metric.key, {}) if seen.reference else {}
    alike: dict[object, list[int]] = {}
    for i in range(seen.metric.n_lost):
        at = seen.lost[i] if seen.lost else -1
        alike.setdefault((old.get(at), _label(seen, at)), []).append(i)
    for counts in product(*(range(len(same) + 1) for same in alike.values())):
        pairs = zip(alike.values(), counts, strict=True)
        yield frozenset(i for same, n in pairs for i in same[:n])


def _label(seen: Observations, at: int) -> str | None:
    if isinstance(seen.labels, Mapping):
        return seen.labels.get(at)
    return seen.labels[at] if seen.labels else None


def _completed(seen: Observations, high: Collection[int]) -> Observations:
    """The task with a value for each document.

    Args:
        high: Which of the documents without one get the highest value, counted from
            0; the others get the lowest.

    Raises:
        InvalidGateError: These values are unknown.
    """
    metric, n_lost = seen.metric, seen.metric.n_lost
    if not n_lost:
        return seen
    labelled = metric.how is not None and metric.how.labels is not None
    ends = estimate_point(metric).range
    if not all(map(math.isfinite, ends)) or labelled:
        raise InvalidGateError(f"the range of {metric.key} is unknown")
    assert metric.estimate is not None
    values = [ends[i in high] for i in range(n_lost)]
    n = metric.n_scored + n_lost
    total = metric.total if ends == (0, 1) else None
    number = (metric.estimate.value * metric.n_scored + math.fsum(values)) / n
    whole = replace(
        metric,
        estimate=replace(metric.estimate, value=number),
        n_scored=n,
        n_errored=0,
        n_unscored=0,
        total=None if total is None else total + len(high),
    )
    changed = replace(seen, metric=whole, size=max(seen.size, n))
    if not seen.values:  # the metric is not computed from values of documents
        return changed
    added: list[Score] = []
    if seen.scores:
        n_repeats = len(seen.scores[0].repeats)
        added = [Score(value=one, repeats=(one,) * n_repeats) for one in values]
    # In the order of the documents: resampling depends on it.
    every = [*seen.positions, *seen.lost]
    order = sorted(range(len(every)), key=every.__getitem__)
    columns = [*seen.values, *values], [*seen.scores, *added]
    return replace(
        changed,
        positions=[every[i] for i in order],
        values=[columns[0][i] for i in order],
        scores=[columns[1][i] for i in order] if added else (),
        lost=(),
    )


def _of_task(gate: Gate, seen: Observations) -> GateEstimate:
    """The value or the change of a task, alone or in a group."""
    is_change = gate.baseline and gate.margin is not None
    return estimate_change(gate, seen) if is_change else estimate_value(gate, seen)


def _of_single(gate: Gate, seen: Observations) -> GateEstimate:
    if not is_sample(gate, seen):
        return _of_task(gate, seen)
    if found := sampled_run(gate, seen):
        change = _change(found, 0.0 if gate.margin else float(found.before))
        return change if gate.margin else _number(change, [found])
    return _as_new_documents(gate, seen.metric, partial(_of_task, seen=seen))


def _as_new_documents(
    gate: Gate, metric: MetricResult, estimate: Callable[[Gate], GateEstimate]
) -> GateEstimate:
    """The estimate of a sample that the baseline cannot complete: limits for a
    population of documents hold for a benchmark, too."""
    found = estimate(replace(gate, over="population"))
    note = (
        f"limits of a sample of documents: {metric.name} is not a mean of values in a "
        "known range, so the baseline does not complete the sample"
    )
    return replace(found, notes=(*found.notes, note), of_sample=True)


def _of_group(gate: Gate, seen: GroupObservations) -> GateEstimate:
    members = seen.members
    if not members:
        return estimate_point(seen.metric)
    if not any(is_sample(gate, one.seen) for one in members):
        return _combined(gate, seen)
    found = {one.seen.task: sampled_run(gate, one.seen) for one in members}
    known = {name: one for name, one in found.items() if one is not None}
    if len(known) < len(found):
        return _as_new_documents(gate, seen.metric, partial(_combined, seen=seen))
    sizes = [
        seen.times[name] * (one.n_whole if seen.is_weighted else 1)
        for name, one in known.items()
    ]
    weights = [Fraction(size, sum(sizes)) for size in sizes]
    return replace(
        estimate_sampled_group(gate, known, weights),
        n_errored=seen.metric.n_errored,
        n_unscored=seen.metric.n_unscored,
    )


def _combined(gate: Gate, seen: GroupObservations) -> GateEstimate:
    metric, members = seen.metric, seen.members
    estimates = []
    for member in members:
        try:
            estimates.append(_of_task(gate, member.seen))
        except InvalidGateError as error:
            raise error.of_task(member.seen.task) from error
    whole = replace(
        combined(gate, members, estimates),
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    if isinstance(whole, ChangeEstimate):
        return whole
    return replace(whole, n=metric.n_scored, count=metric.total)


class SampledRun(NamedTuple):
    """A sampled run and the baseline of the whole benchmark."""

    pairs: Pairs  # the sample
    rest: Sequence[Any]  # values of the other documents in the baseline
    ends: tuple[float, float]  # range of the values

    @property
    def n_whole(self) -> int:
        """Documents of the benchmark."""
        return len(self.pairs.old) + len(self.pairs.lost) + len(self.rest)

    @property
    def before(self) -> Fraction | float:
        """The number of the baseline."""
        every = [*self.pairs.old, *self.pairs.lost.values(), *self.rest]
        if {*every} <= {0, 1}:
            return Fraction(int(sum(every)), len(every))
        return mean(every)


def is_sample(gate: Gate, seen: Observations) -> bool:
    """Whether a gate over the whole benchmark has a sample of a complete baseline's
    documents."""
    how, reference = seen.metric.how, seen.reference
    if gate.over != "run" or reference is None or reference.fault or gate.published:
        return False
    is_labelled = how is not None and how.labels is not None
    return bool(reference.rest.get(seen.metric.key)) and not is_labelled


def sampled_run(gate: Gate, seen: Observations) -> SampledRun | None:
    """The sample and the rest of the benchmark; ``None`` for metrics that are not means
    of values in a known range.

    Raises:
        InvalidGateError: The runs cannot be compared.
    """
    reference, how = seen.reference, seen.metric.how
    if reference is None or how is None or not how.is_mean or gate.reducer:
        return None
    pairs = pairs_of(gate, seen)
    rest = reference.rest.get(seen.metric.key, ())
    every = [*pairs.old, *pairs.lost.values(), *pairs.new, *rest]
    ends = limits_of(every, how.known_limits)
    if ends is None or len(pairs.old) + len(pairs.lost) + len(rest) != reference.n:
        return None
    return SampledRun(pairs, rest, ends)


def estimate_sampled_group(
    gate: Gate, found: Mapping[str, SampledRun], weights: Sequence[Fraction]
) -> GateEstimate:
    """The number of a group over the whole benchmark, or its change. ``found``: the
    samples of its tasks, by name."""
    pairs = [*zip(weights, found.values(), strict=True)]
    before = sum((w * one.before for w, one in pairs), Fraction(0))
    known = 0.0 if gate.margin is not None else float(before)
    changes = [_change(one, known, as_stratum=True) for one in found.values()]
    n_whole = sum(one.n_whole for one in found.values())
    change = replace(combined_change([*found], changes, weights), n_whole=n_whole)
    if gate.margin is not None:
        return change
    return _number(change, [*found.values()])


def _number(change: ChangeEstimate, found: Sequence[SampledRun]) -> GateEstimate:
    """The number of the whole benchmark, of whose change the limits are moved by the
    baseline's number."""
    before, value = change.before, change.value
    is_exact = isinstance(before, Fraction) and isinstance(value, Fraction)
    lows, highs = zip(*(one.ends for one in found), strict=True)
    return GateEstimate(
        value=before + value if is_exact else change.now,
        n=change.n,
        n_errored=change.n_errored,
        spread=change.spread,
        method=change.method,
        n_whole=change.n_whole,
        range=(min(lows), max(highs)),
    )


def _change(
    found: SampledRun, known: float, *, as_stratum: bool = False
) -> ChangeEstimate:
    """The change, of which ``known`` is added to the limits. ``as_stratum``: whether
    they are those of a mean, which tasks of a group can share."""
    old, new = found.pairs.old, found.pairs.new
    before, whole = found.before, found.n_whole
    shares = None
    value: Fraction | float
    is_counted = isinstance(before, Fraction) and {*new} <= {0, 1}
    if is_counted:
        shares, spread = _of_shares(found, known)
        value = _scaled_up(spread.new) - _scaled_up(spread.old)
        limits: IntervalEstimate = spread
    if as_stratum or not is_counted:
        differences = [float(b) - float(a) for a, b in zip(old, new, strict=True)]
        low, high = found.ends[0] - found.ends[1], found.ends[1] - found.ends[0]
        moved = [known + one for one in differences]
        bounded = estimate_bounded(moved, None, (known + low, known + high)).spread
        assert bounded is not None
        limits = bounded.scaled(whole / max(1, whole - len(old)))
        value = Fraction(mean(differences)) if is_counted else mean(differences)
    return ChangeEstimate(
        value=value,
        n=len(old),
        before=before,
        now=before + value if isinstance(value, Fraction) else float(before) + value,
        spread=limits,
        shares=shares,
        method="difference to the baseline, finite benchmark",
        unit="points" if found.ends == (0, 1) else "plain",
        range=(found.ends[0] - found.ends[1], found.ends[1] - found.ends[0]),
        n_whole=whole,
        n_errored=len(found.pairs.lost),
        pairs=found.pairs,
    )


def _of_shares(
    found: SampledRun, known: float
) -> tuple[PairedProportions, IndependentDifference]:
    old = found.pairs.old
    pairs = list(zip(old, found.pairs.new, strict=True))
    gained, lost = pairs.count((0, 1)), pairs.count((1, 0))
    n_right, whole = int(sum(old)), found.n_whole
    size_right = round(float(found.before) * whole)
    better = SampledShare(gained, len(old) - n_right, whole - size_right, whole, known)
    worse = SampledShare(lost, n_right, size_right, whole)
    shares = PairedProportions(gained, lost, len(old))
    return shares, IndependentDifference(better, worse)


def _scaled_up(share: Any) -> Fraction:
    if not share.n:
        return Fraction(0)
    return Fraction(int(share.total) * share.size, int(share.n) * share.whole)
