"""Values against bounds: exactly where the value is a count, with care where it is not.

Right answers are counted, so a share of them is a fraction and is compared as one: 7 of
10 is at least 0.7. Any other value is a double that has been through a sum, whose last
digits are rounding; it equals a bound when the two differ by less than one part in
10**12 (or by 10**-15, near zero), and then ``>=`` and ``<=`` hold, ``>`` and ``<`` do
not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pytest_evals.core.gate import Bound

__all__ = ["answers_short", "broken", "distance", "holds", "side"]

Value = Fraction | float
_RELATIVE, _ABSOLUTE = 1e-12, 1e-15


def holds(bound: Bound, value: Value) -> bool:
    """Whether a finite value keeps within the bound."""
    where = side(value, Fraction(bound.value))
    if where == 0:
        return bound.op in (">=", "<=")
    return (where > 0) == (bound.op in (">=", ">"))


def broken(bounds: Sequence[Bound], value: Value) -> Bound | None:
    """The first bound that does not hold, ``None`` if all do."""
    return next((bound for bound in bounds if not holds(bound, value)), None)


def distance(bound: Bound, value: Value) -> float:
    """How far the value is from the bound, never negative."""
    return abs(float(Fraction(value) - Fraction(bound.value)))


def answers_short(
    bounds: Sequence[Bound], total: int, n: int, higher_is_better: bool | None
) -> int | None:
    """How many more of ``n`` documents would have to be right so that all bounds hold.

    Args:
        bounds: Bounds on the share of ones, not all of which hold.
        total: Documents with value 1.
        n: Documents in all.
        higher_is_better: Whether 1 is the right answer; ``None`` is taken as yes.

    Returns:
        The smallest such number; ``None`` if no number of right answers would do.
    """
    least, most = 0, n
    for bound in bounds:
        edge = Fraction(bound.value) * n
        if bound.op == ">=":
            least = max(least, math.ceil(edge))
        elif bound.op == ">":
            least = max(least, math.floor(edge) + 1)
        elif bound.op == "<=":
            most = min(most, math.floor(edge))
        else:
            most = min(most, math.ceil(edge) - 1)
    if least > most:
        return None
    short = total - most if higher_is_better is False else least - total
    return short if short > 0 else None


def side(value: Value, edge: Value) -> int:
    """-1 below the edge, 0 on it, 1 above."""
    if isinstance(value, Fraction) and isinstance(edge, Fraction):
        return (value > edge) - (value < edge)
    there, limit = float(value), float(edge)
    if math.isclose(there, limit, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        return 0
    return 1 if there > limit else -1
