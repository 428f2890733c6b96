"""A number with where it lies, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_evals.stats.spread import Share, Spread, Still

__all__ = [
    "NEGLIGIBLE",
    "STILL",
    "Placed",
    "antilog",
    "few_clusters",
    "share_of",
    "still",
]

FEW_CLUSTERS = 20
NEGLIGIBLE = 1e-12
"""Part of a number that is rounding and no difference."""
STILL = "no document differs"
"""The method of a number that does not vary at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A number, and where it lies as far as its noise goes.

    Args:
        spread: On the scale on which it is compared.
        method: How that was obtained.
        is_log: Whether that scale is the logarithm.
        notes: What a reader should know of it.
    """

    spread: Spread
    method: str
    is_log: bool = False
    notes: tuple[str, ...] = ()


def still(value: float, *, is_log: bool = False) -> Placed:
    """A number whose noise is not counted, or of which there is none.

    Args:
        value: The number.
        is_log: Whether it is a logarithm.
    """
    return Placed(spread=Still(value), method=STILL, is_log=is_log)


def share_of(value: float, n: float, n_clusters: int) -> Share:
    """A share of documents that hang together, worth ``n`` that do not."""
    few = n_clusters if n_clusters < FEW_CLUSTERS else 0
    return Share(value, n, few)


def few_clusters(n_clusters: int) -> tuple[str, ...]:
    """A remark where there are too few for the interval to be exact."""
    if n_clusters >= FEW_CLUSTERS:
        return ()
    return (f"only {n_clusters} clusters: the interval is approximate",)


def antilog(value: float) -> float:
    """What has this logarithm; infinite where a double cannot hold it."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
