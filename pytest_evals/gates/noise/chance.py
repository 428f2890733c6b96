"""How much a bare bound owes to chance: what other documents of the same kind would
have said. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist

from pytest_evals.core.gate import Bound

__all__ = ["NO_RECORD", "NO_TURNS", "WITHIN_NOISE", "chance_to_hold", "inside_noise"]

NO_RECORD = "no record of the noise between runs, so this is this run's number"
"""Stands in the reason of a verdict that could count no noise."""
NO_TURNS = "a rate of turned answers says nothing of a metric without right ones"
"""Why the noise between runs is unknown though a rate is known."""
WITHIN_NOISE = "within noise"
"""Stands in what is said of a verdict that other documents might well have turned."""

_TWO_SIDED_95 = 1.959964
"""Standard errors on each side of a value that make a 95 % interval."""
_NEGLIGIBLE = 1e-12


def inside_noise(distance: float, stderr: float | None) -> bool:
    """Whether a bound at this distance lies in the value's 95 % interval."""
    return bool(stderr) and distance < _TWO_SIDED_95 * (stderr or 0.0)


def chance_to_hold(
    bounds: Sequence[Bound],
    value: float,
    stderr: float,
    counted: tuple[int, int] | None,
) -> float:
    """Probability that all bounds hold over as many other documents like these, if the
    value is the true one.

    Args:
        bounds: At most one on each side, which some value keeps both.
        value: The value of this run.
        stderr: Its standard error over documents.
        counted: Right answers and documents when the value is their share: then the
            probability is the binomial one, else that of the normal distribution.
    """
    # No value breaks both sides, so the chances to break them add up.
    broken = sum(_chance_to_break(bound, value, stderr, counted) for bound in bounds)
    return max(0.0, 1 - broken)


def _chance_to_break(
    bound: Bound, value: float, stderr: float, counted: tuple[int, int] | None
) -> float:
    is_least = bound.op in (">=", ">")
    if counted is None:
        below = NormalDist(value, stderr).cdf(float(bound.value))
        return below if is_least else 1 - below
    total, n = counted
    # The chance of at most `most` right answers out of n.
    edge = Fraction(bound.value) * n
    most = math.ceil(edge) - 1 if bound.op in (">=", "<") else math.floor(edge)
    below = _at_most(most, n, total / n)
    return below if is_least else 1 - below


def _at_most(most: int, n: int, p: float) -> float:
    """P(Bin(n, p) <= most), summed from the largest term on, for 0 < p < 1."""
    if most < 0:
        return 0.0
    if most >= n:
        return 1.0
    if most > n * p:
        return 1 - _at_most(n - most - 1, n, 1 - p)
    sum_, k = 0.0, most
    term = math.exp(
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(p)
        + (n - k) * math.log1p(-p)
    )
    while k >= 0 and term > _NEGLIGIBLE * sum_:
        sum_ += term
        term *= k * (1 - p) / ((n - k + 1) * p)
        k -= 1
    return min(1.0, sum_)
