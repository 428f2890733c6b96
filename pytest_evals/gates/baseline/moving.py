"""Values of the same documents in two runs to how far a metric has moved, and where
that lies as far as its noise goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pytest_evals.core.gate import Gate, Unit
from pytest_evals.core.metric import Metric, Totals
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.noise.chance import NO_TURNS
from pytest_evals.gates.noise.placed import (
    STILL,
    Placed,
    antilog,
    still,
)
from pytest_evals.gates.noise.placing import turns
from pytest_evals.gates.noise.sums import (
    Labels,
    limits_of,
    place_bounded,
    place_number,
    place_totals,
    totals_of,
)
from pytest_evals.stats.averages import mean
from pytest_evals.stats.paired import PairedShares
from pytest_evals.stats.spread import Located, Widest

__all__ = ["Moved", "between_runs", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """How far a metric has moved over the same documents.

    Args:
        before: Its value in the baseline; a fraction where documents are counted.
        now: Its value in this run.
        placed: The difference: ``now - before``, or that of the logarithms.
        n: Documents.
        shares: Documents that are 1 in one run only, if each is 0 or 1.
        unit: How differences are shown.
    """

    before: Fraction | float
    now: Fraction | float
    placed: Placed
    n: int
    shares: PairedShares | None = None
    unit: Unit = "plain"

    @property
    def difference(self) -> Fraction | float:
        """As it is compared: exact where documents are counted."""
        if isinstance(self.before, Fraction) and isinstance(self.now, Fraction):
            return self.now - self.before
        return self.placed.spread.value


def moved(
    how: Metric,
    old: Sequence[Any],
    new: Sequence[Any],
    labels: Labels,
    *,
    only_number: bool = False,
) -> Moved:
    """How far a metric has moved.

    Args:
        how: What it is computed by.
        old: The documents' values in the baseline.
        new: The same documents' values now.
        labels: Their clusters.
        only_number: Whether it will do without noise where that cannot be told.

    Raises:
        ValueError: Its noise cannot be told, or the number itself.
    """
    if how.is_mean and _are_right_or_wrong(old) and _are_right_or_wrong(new):
        return _shares(old, new, labels)
    ends = limits_of([*old, *new], how.known_limits)
    if how.is_mean and ends is not None:
        return _bounded(old, new, labels, ends)
    before, now = totals_of(how, old), totals_of(how, new)
    if before is not None and now is not None:
        return _sums(how, before, now, labels, only_number=only_number)
    return _any_number(how, old, new, labels, only_number=only_number)


def between_runs(gate: Gate, found: Moved) -> Moved:
    """The change by the noise of another run, where the gate counts that.

    Two runs of one model on the same documents differ by the answers that turn: the
    variance of each mean is half their share a document; of other numbers, half the
    mean square of their changes.

    Raises:
        UnsoundError: No answer is right or wrong, and no changes were measured.
    """
    if gate.over != "benchmark" or gate.flip_rate is None:
        return found
    is_share = found.shares is not None
    if not is_share and (not gate.measured or found.placed.is_log):
        raise UnsoundError(NO_TURNS)
    spread = Located(float(found.difference), math.sqrt(gate.flip_rate / found.n))
    method = turns(gate, is_share=is_share)
    return replace(found, placed=Placed(spread=spread, method=method))


def _are_right_or_wrong(values: Sequence[Any]) -> bool:
    return all(isinstance(v, (int, float)) and v in (0, 1) for v in values)


def _shares(old: Sequence[Any], new: Sequence[Any], labels: Labels) -> Moved:
    pairs = list(zip(old, new, strict=True))
    shares = PairedShares(pairs.count((0, 1)), pairs.count((1, 0)), len(pairs))
    placed = Placed(spread=shares, method="paired score test")
    if labels is not None:
        differences = [float(new_ - old_) for old_, new_ in pairs]
        found = place_bounded(differences, labels, (-1.0, 1.0))
        spread = Widest((shares, found.spread))
        placed = replace(found, spread=spread, method=f"paired {found.method}")
    return Moved(
        before=Fraction(int(sum(old)), len(pairs)),
        now=Fraction(int(sum(new)), len(pairs)),
        placed=placed,
        n=len(pairs),
        shares=shares,
        unit="points",
    )


def _bounded(
    old: Sequence[Any],
    new: Sequence[Any],
    labels: Labels,
    ends: tuple[float, float],
) -> Moved:
    """Of means of scores in a known range, which bounds their differences too."""
    differences = [float(b) - float(a) for a, b in zip(old, new, strict=True)]
    width = ends[1] - ends[0]
    placed = place_bounded(differences, labels, (-width, width))
    return Moved(
        before=mean(old),
        now=mean(new),
        placed=replace(placed, method=f"paired {placed.method}"),
        n=len(old),
        unit="points" if ends == (0, 1) else "plain",
    )


def _sums(
    how: Metric, before: Totals, now: Totals, labels: Labels, *, only_number: bool
) -> Moved:
    """The difference is computed from the sums of both runs; documents are drawn for
    both at once."""
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
        placed = place_totals(both, labels)
    except ValueError:
        if not only_number:
            raise
        placed = still(_score(both), is_log=now.is_log)
    if placed.method != STILL:
        placed = replace(placed, method=f"paired {placed.method}")
    return Moved(
        before=values[0],
        now=values[1],
        placed=placed,
        n=len(now.columns[0]),
        unit=_unit(how, now, (*values, *before.columns[0], *now.columns[0])),
    )


def _score(totals: Totals) -> float:
    return totals.score([math.fsum(column) for column in totals.columns])


def _value(totals: Totals) -> float:
    score = _score(totals)
    return antilog(score) if totals.is_log else score


def _unit(how: Metric, totals: Totals, numbers: Sequence[float]) -> Unit:
    """Points for what lies between 0 and 1, percent for perplexities."""
    if totals.is_log:
        return "percent"
    if how.is_mean:
        return "points" if all(0 <= one <= 1 for one in numbers) else "plain"
    is_coefficient = not totals.is_ratio and all(abs(one) <= 1 for one in numbers)
    return "points" if is_coefficient else "plain"


def _any_number(
    how: Metric,
    old: Sequence[Any],
    new: Sequence[Any],
    labels: Labels,
    *,
    only_number: bool,
) -> Moved:
    number = how.number
    if number is None:
        raise ValueError("nothing computes it from the values of documents")
    if labels is not None:
        raise ValueError("it is no sum over documents, so clusters mean nothing")
    pairs = list(zip(old, new, strict=True))

    def difference(some: Sequence[Any]) -> float:
        return number([b for _, b in some]) - number([a for a, _ in some])

    both = replace(how, number=difference, statistic=_differences(how))
    try:
        placed = place_number(both, pairs)
    except ValueError:
        if not only_number:
            raise
        placed = still(difference(pairs))
    if placed.method != STILL:
        placed = replace(placed, method=f"paired {placed.method}")
    return Moved(before=number(old), now=number(new), placed=placed, n=len(pairs))


def _differences(how: Metric) -> Callable[[Sequence[Any]], Callable[[Any], Any]] | None:
    """Pairs of values to the changes in many resamples of them at once."""
    statistic = how.statistic
    if statistic is None:
        return None

    def of_pairs(pairs: Sequence[Any]) -> Callable[[Any], Any]:
        before, now = (statistic(values) for values in zip(*pairs, strict=True))
        return lambda at: now(at) - before(at)

    return of_pairs
