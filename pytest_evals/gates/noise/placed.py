"""A number with its uncertainty, and remarks about both."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_evals.stats.spread import Spread, Still

__all__ = [
    "NEGLIGIBLE",
    "STILL",
    "Placed",
    "antilog",
    "few_clusters",
    "still",
]

FEW_CLUSTERS = 20
NEGLIGIBLE = 1e-12
"""Part of a number that is rounding and no difference."""
STILL = "no document differs"
"""The method of a number that does not vary at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A number with its uncertainty.

    Args:
        spread: On the scale on which it is compared.
        method: How that was obtained.
        is_log: Whether that scale is the logarithm.
        notes: Remarks for the reader.
        range: Ends of the values that the number can have.
    """

    spread: Spread
    method: str
    is_log: bool = False
    notes: tuple[str, ...] = ()
    range: tuple[float, float] = (-math.inf, math.inf)


def still(value: float, *, is_log: bool = False) -> Placed:
    """A number without uncertainty.

    Args:
        value: The number.
        is_log: Whether it is a logarithm.
    """
    return Placed(spread=Still(value), method=STILL, is_log=is_log)


def few_clusters(n_clusters: int) -> tuple[str, ...]:
    """A remark if there are too few clusters for a normal approximation."""
    if n_clusters >= FEW_CLUSTERS:
        return ()
    return (f"only {n_clusters} clusters: the confidence limits are approximate",)


def antilog(value: float) -> float:
    """The number with this logarithm; infinite if a double cannot hold it."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
