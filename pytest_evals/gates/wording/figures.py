"""Numbers as people read them. They are shown so that no rounding makes a value look as
if it stood on the other side of its bound.
"""

from __future__ import annotations

import math
from decimal import Decimal

__all__ = ["figure", "figure_beside"]

MOST_DIGITS = 15
"""Digits behind the point that a double can still tell apart near 1."""


def figure(value: float) -> str:
    """Three digits behind the point; three significant ones for tiny numbers, six for
    huge ones."""
    if not math.isfinite(value):
        return str(value)
    if value and abs(value) < 0.001:
        return f"{value:.3g}"
    return f"{value:.6g}" if abs(value) >= 1e6 else f"{value:.3f}"


def figure_beside(value: float, bound: Decimal) -> str:
    """The number with as many digits as it takes to see on which side of the bound it
    lies: 0.74996 beside 0.75, not 0.750."""
    text = figure(value)
    if not math.isfinite(value) or value == float(bound):
        return text
    above = value > float(bound)
    for digits in range(3, MOST_DIGITS + 1):
        shown = Decimal(text)
        if shown != bound and (shown > bound) == above:
            return text
        text = f"{value:.{digits + 1}f}"
    return repr(value)
