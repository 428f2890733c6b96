"""Widths of the limits of bounded means, compared with guaranteed ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pytest_evals.stats.averages import mean_stderr
from pytest_evals.stats.interval_methods import NormalEstimate
from pytest_evals.stats.mean_limits import bounded_mean
from tests.simulations.betting import betting_limits
from tests.simulations.populations import BOUNDED

__all__ = ["width_rows"]


def width_rows(n_samples: int, sizes: tuple[int, ...] = (30, 300)) -> Iterator[str]:
    """Mean width between both limits, and how often either misses the mean (%)."""
    yield (
        f"{'population':30} {'n':>5} {'ours':>14} {'betting':>14} {'Student t':>14}"
        "  (width, errors % low/high)"
    )
    for name, (draw, mean) in BOUNDED.items():
        for n in sizes:
            rng = np.random.default_rng([n, *name.encode()])
            found = np.array(
                [_limits(draw(rng, n).tolist()) for _ in range(n_samples)]
            )  # (samples, methods, 2)
            width = (found[:, :, 1] - found[:, :, 0]).mean(axis=0)
            low = 100 * (found[:, :, 0] > mean).mean(axis=0)
            high = 100 * (found[:, :, 1] < mean).mean(axis=0)
            columns = zip(width, low, high, strict=True)
            yield f"{name:30} {n:>5} " + " ".join(
                f"{w:6.3f} {a:3.0f}/{b:<3.0f}" for w, a, b in columns
            )


def _limits(values: list[float]) -> list[tuple[float, float]]:
    n = len(values)
    ours = bounded_mean(values).interval(0.95)
    error = mean_stderr(values) or 0.0
    t = NormalEstimate(sum(values) / n, error, n - 1).interval(0.95)
    return [tuple(ours), betting_limits(values), tuple(t)]
