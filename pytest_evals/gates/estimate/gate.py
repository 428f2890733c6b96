"""The estimate of a gate: by its keys, of a task's value or of its change; the same of
the tasks of a group, combined.

A random sample of the documents of a complete baseline estimates the whole benchmark:
the baseline's known number, and the change on the sample. Answers change in few
documents, so the change varies much less than the number itself. The limits of the
change are Gaffke's, with n / (1 - n / N) documents for n of N: the correction for
finite populations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Score
from pytest_evals.gates.estimate.change import estimate_change, paired_proportions
from pytest_evals.gates.estimate.combinations import (
    combined,
    combined_change,
    estimate_published,
)
from pytest_evals.gates.estimate.sums import estimate_bounded, limits_of
from pytest_evals.gates.estimate.value import estimate_point, estimate_value
from pytest_evals.gates.observations import (
    GateDocuments,
    GroupObservations,
    Observations,
    pairs_of,
)
from pytest_evals.gates.terms import (
    ChangeEstimate,
    GateEstimate,
    InvalidGateError,
    Pairs,
    compares_limits,
)
from pytest_evals.stats.averages import mean
from pytest_evals.stats.independent import enclosing


def estimate_gate(
    gate: Gate, seen: GateDocuments
) -> tuple[GateEstimate, Sequence[GateEstimate]]:
    """The estimate of a gate, and the estimates with the lowest and the highest values
    of the documents without a score: none without such documents, or if the range of
    the values, or a cluster, is unknown."""
    metric = seen.metric
    estimate = replace(
        _estimate(gate, seen), n_errored=metric.n_errored, n_unscored=metric.n_unscored
    )
    bracket: Sequence[GateEstimate] = ()
    if metric.n_lost and (gate.bounds or gate.margin):
        with suppress(InvalidGateError):
            bracket = _bracket(gate, seen, estimate)
    if gate.published is None:
        return estimate, bracket
    whole, *others = (
        estimate_published(gate, seen, one) for one in (estimate, *bracket)
    )
    return whole, others


def _bracket(
    gate: Gate, seen: GateDocuments, estimate: GateEstimate
) -> tuple[GateEstimate, GateEstimate]:
    """The estimates between whose limits those with other scores are."""
    low, high = (
        _estimate(gate, _completed(seen, at_best=one)) for one in (False, True)
    )
    if isinstance(seen, Observations) or low.spread is None:
        return low, high
    if not compares_limits(gate, estimate):
        return low, high
    ends = enclosing(low.spread, high.spread) if high.spread else None
    if ends is None:
        raise InvalidGateError("the limits with other scores are unknown")
    # Those of a group do not: a score far from the others widens both of them.
    return replace(low, spread=ends[0]), replace(high, spread=ends[1])


def _completed(seen: GateDocuments, *, at_best: bool) -> GateDocuments:
    """The documents with the highest or the lowest value for each without one."""
    if isinstance(seen, Observations):
        return _completed_task(seen, at_best=at_best)
    tasks = [_completed_task(one.seen, at_best=at_best) for one in seen.members]
    return seen.with_tasks(tasks)


def _completed_task(seen: Observations, *, at_best: bool) -> Observations:
    metric, n_lost = seen.metric, seen.metric.n_lost
    if not n_lost:
        return seen
    ends = estimate_point(metric).range
    if not all(map(math.isfinite, ends)) or metric.labels:
        raise InvalidGateError(f"the range of {metric.key} is unknown")
    assert metric.estimate is not None
    values = [ends[at_best]] * n_lost
    n = metric.n_scored + n_lost
    total = metric.total if ends == (0, 1) else None
    number = (metric.estimate.value * metric.n_scored + math.fsum(values)) / n
    whole = replace(
        metric,
        estimate=replace(metric.estimate, value=number),
        n_scored=n,
        n_errored=0,
        n_unscored=0,
        total=None if total is None else total + n_lost * at_best,
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


def _estimate(gate: Gate, seen: GateDocuments) -> GateEstimate:
    if isinstance(seen, GroupObservations):
        return _of_group(gate, seen)
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
    return estimate_sampled_group(gate, known, weights)


def _combined(gate: Gate, seen: GroupObservations) -> GateEstimate:
    metric, members = seen.metric, seen.members
    estimates = []
    for member in members:
        try:
            estimates.append(_of_task(gate, member.seen))
        except InvalidGateError as error:
            raise error.of_task(member.seen.task) from error
    whole = combined(gate, members, estimates)
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
    metric, reference = seen.metric, seen.reference
    if gate.over != "run" or reference is None or reference.fault or gate.published:
        return False
    return bool(reference.rest.get(metric.key)) and not metric.labels


def sampled_run(gate: Gate, seen: Observations) -> SampledRun | None:
    """The sample and the rest of the benchmark; ``None`` for metrics that are not means
    of values in a known range."""
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
    changes = [_change(one, known) for one in found.values()]
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
        spread=change.spread,
        method=change.method,
        n_whole=change.n_whole,
        range=(min(lows), max(highs)),
    )


def _change(found: SampledRun, known: float) -> ChangeEstimate:
    """The change, of which ``known`` is added to the limits."""
    old, new = found.pairs.old, found.pairs.new
    before, whole, n = found.before, found.n_whole, len(old)
    width = found.ends[1] - found.ends[0]
    differences = [float(b) - float(a) for a, b in zip(old, new, strict=True)]
    moved = [known + one for one in differences]
    spread = estimate_bounded(moved, None, (known - width, known + width)).spread
    assert spread is not None
    value: Fraction | float = mean(differences)
    now: Fraction | float = float(before) + value
    shares = None
    if isinstance(before, Fraction) and {*new} <= {0, 1}:
        value = Fraction(int(sum(differences)), n)
        now, shares = before + value, paired_proportions(old, new)
    return ChangeEstimate(
        value=value,
        n=n,
        before=before,
        now=now,
        spread=spread.scaled(whole / max(1, whole - n)),
        shares=shares,
        method="Gaffke, change since the baseline, finite benchmark",
        unit="points" if found.ends == (0, 1) else "plain",
        range=(-width, width),
        n_whole=whole,
        pairs=found.pairs,
    )
