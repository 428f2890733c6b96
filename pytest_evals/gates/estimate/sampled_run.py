"""The estimate of a whole benchmark from a random sample of its documents and a
complete baseline: the baseline's known number, and the change on the sample.

Answers change in few documents, so the change varies much less than the number itself.
Correct and wrong answers are two finite sets: of the documents that were wrong in the
baseline some are gained, of the others some are lost. Both counts have exact
hypergeometric limits, which are combined (MOVER).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.gates.estimate.group import combined_change
from pytest_evals.gates.estimate.sums import estimate_bounded, limits_of
from pytest_evals.gates.observations import Observations
from pytest_evals.gates.pairs import pairs_of
from pytest_evals.gates.terms import ChangeEstimate, GateEstimate, Pairs
from pytest_evals.stats.averages import mean
from pytest_evals.stats.independent import IndependentDifference, SampledShare
from pytest_evals.stats.interval_methods import IntervalEstimate
from pytest_evals.stats.paired_proportions import PairedProportions


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


def estimate_sample(gate: Gate, found: SampledRun) -> GateEstimate:
    """The number over the whole benchmark, or its change."""
    if gate.margin is not None:
        return _change(found, 0.0)
    return _number(_change(found, float(found.before)), [found])


def estimate_sampled_group(
    gate: Gate, found: Mapping[str, SampledRun], weights: Sequence[Fraction]
) -> GateEstimate:
    """The same of a group. ``found``: the samples of its tasks, by name."""
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
