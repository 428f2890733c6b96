"""The estimate of a whole benchmark from a random sample of its documents and a
complete baseline: the baseline's known number, and the change on the sample.

Answers change in few documents, so the change varies much less than the number itself.
Correct and wrong answers are two finite sets: of the documents that were wrong in the
baseline some are gained, of the others some are lost. Both counts have exact
hypergeometric limits, which are combined (MOVER).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.gates.estimate.sums import estimate_bounded, limits_of
from pytest_evals.gates.observations import Observations
from pytest_evals.gates.terms import ChangeEstimate, GateEstimate, Pairs
from pytest_evals.stats.averages import mean
from pytest_evals.stats.independent import IndependentDifference, SampledShare
from pytest_evals.stats.interval_methods import IntervalEstimate
from pytest_evals.stats.paired_proportions import PairedProportions


class SampledRun(NamedTuple):
    """A sampled run and the baseline of the whole benchmark.

    Args:
        pairs: The sample.
        rest: Values of the other documents in the baseline.
        ends: Range of the values.
    """

    pairs: Pairs
    rest: Sequence[Any]
    ends: tuple[float, float]

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


def sampled_run(gate: Gate, seen: Observations, pairs: Pairs) -> SampledRun | None:
    """A run that is a random sample of a complete baseline's documents; ``None`` for
    other runs, and for metrics that are not means of values in a known range."""
    reference, how = seen.reference, seen.metric.how
    assert reference is not None
    rest = reference.rest.get(seen.metric.key)
    if not rest or how is None or not how.is_mean or gate.reducer:
        return None
    every = [*pairs.old, *pairs.lost.values(), *pairs.new, *rest]
    ends = limits_of(every, how.known_limits)
    if ends is None or len(pairs.old) + len(pairs.lost) + len(rest) != reference.n:
        return None
    return SampledRun(pairs, rest, ends)


def estimate_whole_change(found: SampledRun) -> ChangeEstimate:
    """The change of the number over the whole benchmark."""
    return _change(found, 0.0)


def estimate_whole(found: SampledRun) -> GateEstimate:
    """The number over the whole benchmark."""
    before = found.before
    change = _change(found, float(before))
    return GateEstimate(
        value=before + change.value if _is_exact(change) else change.now,
        n=change.n,
        n_errored=change.n_errored,
        spread=change.spread,
        method=change.method,
        n_whole=found.n_whole,
        range=found.ends,
    )


def _is_exact(change: ChangeEstimate) -> bool:
    return isinstance(change.before, Fraction) and isinstance(change.value, Fraction)


def _change(found: SampledRun, known: float) -> ChangeEstimate:
    """The change, of which ``known`` is added to the limits."""
    old, new = found.pairs.old, found.pairs.new
    before, whole = found.before, found.n_whole
    shares = None
    value: Fraction | float
    if isinstance(before, Fraction) and {*new} <= {0, 1}:
        shares, spread = _of_shares(found, known)
        value = _scaled_up(spread.new) - _scaled_up(spread.old)
        limits: IntervalEstimate = spread
    else:
        differences = [float(b) - float(a) for a, b in zip(old, new, strict=True)]
        low, high = found.ends[0] - found.ends[1], found.ends[1] - found.ends[0]
        moved = [known + one for one in differences]
        spread_ = estimate_bounded(moved, None, (known + low, known + high)).spread
        assert spread_ is not None
        unseen = whole - len(old)
        limits = spread_.scaled(whole / unseen) if unseen else spread_
        value = mean(differences)
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
