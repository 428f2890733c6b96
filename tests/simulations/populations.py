"""Populations of scores with a known mean."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["BOUNDED", "UNBOUNDED", "Draw", "Numbers"]

Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]

BOUNDED: dict[str, tuple[Draw, float]] = {
    "95% full marks, else uniform": (
        lambda rng, n: np.where(rng.random(n) < 0.95, 1.0, rng.random(n)),
        0.975,
    ),
    "95% full marks, else 0.9": (
        lambda rng, n: np.where(rng.random(n) < 0.95, 1.0, 0.9),
        0.995,
    ),
    "95% full marks, steps of 0.2": (
        lambda rng, n: rng.choice(
            [1, 0.8, 0.6, 0.4, 0.2, 0], n, p=[0.95, 0.02, 0.01, 0.01, 0.005, 0.005]
        ),
        0.977,
    ),
    "U-shaped": (lambda rng, n: rng.beta(0.2, 0.2, n), 0.5),
    "U-shaped, mean 0.9": (lambda rng, n: rng.beta(0.45, 0.05, n), 0.9),
    "90% zeros, else uniform": (
        lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.random(n)),
        0.05,
    ),
    "98% zeros, else uniform": (
        lambda rng, n: np.where(rng.random(n) < 0.98, 0.0, rng.random(n)),
        0.01,
    ),
    "skewed": (lambda rng, n: rng.beta(0.5, 10, n), 0.5 / 10.5),
    "like ROUGE": (lambda rng, n: rng.beta(2, 5, n), 2 / 7),
}
"""Scores between 0 and 1, with their mean."""
UNBOUNDED: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.normal(3, 1, n), 3.0),
    "exponential": (lambda rng, n: rng.exponential(1, n), 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(0, 1, n), math.exp(0.5)),
}
"""Other scores, with their mean."""
