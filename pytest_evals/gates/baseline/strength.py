"""What a reader should know of a baseline gate beyond its verdict: how strong it is,
and what the change says besides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from pytest_evals.core.gate import Change, Gate, Outcome
from pytest_evals.gates.baseline.moving import Moved
from pytest_evals.gates.noise.chance import WITHIN_NOISE, inside_noise
from pytest_evals.gates.wording.changes import suffix
from pytest_evals.gates.wording.figures import figure

__all__ = ["remarks"]

POWER = 0.8
"""The chance with which a gate should prove that an unchanged model is no worse."""
WEAK = 0.5
_NORMAL = NormalDist()


def remarks(
    gate: Gate, outcome: Outcome, change: Change, found: Moved
) -> Iterator[str]:
    """The notes of a verdict, one line each."""
    if gate.over == "run":
        yield from _of_a_point(outcome, change, found)
    elif gate.over == "population":
        yield from _of_weakness(gate, outcome, change, found)
        yield from _of_a_real_change(gate, outcome, found)


def _of_a_point(outcome: Outcome, change: Change, found: Moved) -> Iterator[str]:
    stderr = found.placed.spread.stderr
    away = abs(change.difference - change.bar)
    if not inside_noise(away, stderr):
        return
    chance = _NORMAL.cdf(-away / stderr)
    would = "pass" if outcome is Outcome.FAILED else "fail"
    often = max(1, round(100 * chance))
    yield (
        f"{WITHIN_NOISE}: on {found.n} other documents like these it would {would} "
        + (f"{often} times in 100" if often > 1 else "about once in 100")
    )


def _of_weakness(
    gate: Gate, outcome: Outcome, change: Change, found: Moved
) -> Iterator[str]:
    """How often an unchanged model is proven good, and what would make that usual."""
    stderr = found.placed.spread.stderr
    margin = abs(math.log1p(change.bar)) if found.placed.is_log else abs(change.bar)
    if outcome is Outcome.FAILED or stderr <= 0 or not 0 < margin < math.inf:
        return
    z = _NORMAL.inv_cdf(gate.confidence)
    chance = _NORMAL.cdf(margin / stderr - z)
    if chance >= (POWER if outcome is Outcome.INCONCLUSIVE else WEAK):
        return
    least = (z + _NORMAL.inv_cdf(POWER)) * stderr
    n = math.ceil(found.n * (least / margin) ** 2)
    assert gate.margin is not None
    key = "margin" if gate.margin.key == "recovery" else gate.margin.key
    yield (
        f"weak gate: an unchanged model is proven OK only {100 * chance:.0f}% of the "
        f"time; smallest {key} with {100 * POWER:.0f}%: {_size(least, found)}, or "
        f"{n:,} documents"
    )


def _size(least: float, found: Moved) -> str:
    if found.unit == "percent":
        return f"{100 * math.expm1(least):.2g}%"
    if found.unit == "points":
        return f"{100 * least:.1f}{suffix(found.unit)}"
    return figure(least)


def _of_a_real_change(gate: Gate, outcome: Outcome, found: Moved) -> Iterator[str]:
    assert gate.margin is not None
    low, high = found.placed.spread.interval(gate.confidence)
    worse = high < 0 if gate.margin.sign > 0 else low > 0
    if not worse or outcome is Outcome.FAILED:
        return
    word = "drop" if gate.margin.sign > 0 else "rise"
    allowed = ", which the margin allows" if outcome is Outcome.PASSED else ""
    yield f"a real {word}{allowed}"
