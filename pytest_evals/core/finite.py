"""Check of numbers that users, models and servers give."""

from __future__ import annotations

import sys
from typing import TypeGuard

LARGEST = sys.float_info.max


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold.

    A boolean is not. ``math.isfinite`` raises an error for integers above
    ``LARGEST``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST <= value <= LARGEST
