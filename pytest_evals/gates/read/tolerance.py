"""``value: 0.765, tolerance: 8%``: an expected value, and how far from it the measured
one may be. The gate has the bounds that they mean, computed exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from pytest_evals.core.gate import Bound
from pytest_evals.errors import suggestion
from pytest_evals.gates.read.text import ConditionError, MissingKeyError, read_number

SIDES: Mapping[str, tuple[Literal[">=", "<="], int]] = {
    "below": (">=", -1),
    "above": ("<=", 1),
}
"""Keys of ``tolerance`` → the operator and the sign of their bounds."""
_POINTS = re.compile(r"(\S+)\s*(?:points?|pts?|pp)", re.IGNORECASE)
_EXAMPLE = "{metric: acc, value: 0.765, tolerance: 8%}"
_BOTH = "tolerance: {below: 4%, above: 10%}"


class Tolerance(NamedTuple):
    """An allowed distance; ``relative`` if it is a share of the expected value."""

    distance: Decimal
    relative: bool

    def from_value(self, value: Decimal) -> Decimal:
        """The distance from a value."""
        return self.distance * (abs(value) if self.relative else 1)


def bounds_of(
    entry: Mapping[str, Any], excluded: Iterable[str]
) -> tuple[Bound, ...] | None:
    """The bounds of an entry with ``value`` and ``tolerance``; ``None`` if it has
    neither, or if one is invalid.

    Raises:
        ConditionError: One is missing, or a key of ``excluded`` is given too.
    """
    own = [key for key in ("value", "tolerance") if key in entry]
    other = next((key for key in excluded if key in entry), None)
    if own and other:
        raise ConditionError(f"{own[0]} cannot be combined with {other}", _EXAMPLE)
    if len(own) == 1:
        missing = "tolerance" if own == ["value"] else "value"
        fix = f"{_EXAMPLE}, or a threshold: min: 0.7" if "value" in own else _EXAMPLE
        raise MissingKeyError(f"{own[0]} needs {missing}", fix, [missing])
    value, tolerance = entry.get("value"), entry.get("tolerance")
    if value is None or tolerance is None:  # reported by its parser
        return None
    return _bounds_around(value, tolerance)


def read_tolerance(key: str, value: object) -> Mapping[str, Tolerance]:
    """The allowed distance on each side; a number is a distance below."""
    sides = value if isinstance(value, Mapping) else {"below": value}
    for side in sides:
        if side not in SIDES:
            hint = suggestion(str(side), SIDES)
            raise ConditionError(f"{key} has no side {side!r}{hint}", _BOTH)
    if not sides:
        raise ConditionError(f"{key} has no side: below or above", _BOTH)
    return {str(side): _distance(key, one) for side, one in sides.items()}


def _bounds_around(
    value: Decimal, tolerance: Mapping[str, Tolerance]
) -> tuple[Bound, ...]:
    """The smallest and the largest value within a tolerance.

    Raises:
        ConditionError: The tolerance reaches below 0 from a positive value, as 8 for 8%
            does.
    """
    bounds = []
    for side, (op, sign) in SIDES.items():
        if side in tolerance:
            edge = value + sign * tolerance[side].from_value(value)
            bounds.append(Bound(op, Decimal(f"{edge.normalize():f}")))
    if value > 0 >= bounds[0].value:
        distance = tolerance["below"].distance
        shown = (
            f"{float(distance * 100):g}%"
            if tolerance["below"].relative
            else f"{distance}"
        )
        what = f"a tolerance of {shown} below {value} allows every positive value"
        fix = "8%" if distance >= 100 or tolerance["below"].relative else f"{distance}%"
        raise ConditionError(what, f"tolerance: {fix}")
    return tuple(bounds)


def _distance(key: str, value: object) -> Tolerance:
    shown = value.strip() if isinstance(value, str) else value
    points = _POINTS.fullmatch(shown) if isinstance(shown, str) else None
    try:
        allowed = read_number(f"{points[1]}%" if points else shown, key)
    except ConditionError:
        what = f"{key} must be a share (8%), a distance (0.08) or points (8 points), "
        raise ConditionError(f"{what}not {value!r:.80}", f"{key}: 8%") from None
    if allowed < 0:
        what = f"{key} must be 0 or more, not {value!r}: it is a distance"
        raise ConditionError(what, f"{key}: {str(shown).lstrip('-')}")
    is_share = isinstance(shown, str) and shown.endswith("%")
    return Tolerance(allowed, is_share)
