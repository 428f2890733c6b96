"""Baseline gates on the mean of several answers to each document: the bounded method
compared with a paired t over document means."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import t as student

from pytest_evals.stats.mean_limits import bounded_mean
from tests.simulations.populations import Numbers

__all__ = ["several_rows"]

CELLS = ((100, 1, 0.1), (100, 4, 0.1), (300, 4, 0.05), (300, 16, 0.02))
"""Documents, answers, margin."""


def several_rows(n_samples: int) -> Iterator[str]:
    """Passed and failed by a model that is worse by the margin, and passed by an
    unchanged one (%): of documents with the same rate, between 0 and 1, and near 1."""
    yield (
        f"{'population':22} {'n':>5} {'K':>3} {'margin':>6}"
        f" {'ours: passed failed power':>27} {'t: passed failed power':>25}"
    )
    for name in ("same rate 0.7", "rates from 0 to 1", "few lose all, 0.99"):
        for n, k, margin in CELLS:
            rng = np.random.default_rng([n, k, *name.encode()])
            some = min(n_samples, 200_000 // n)
            worse, same = (
                np.array(
                    [_both(_drawn(rng, name, n, k, d), margin) for _ in range(some)]
                )
                for d in (margin, 0.0)
            )  # (samples, passed and failed of both methods)
            rates = 100 * np.concatenate([worse, same[:, ::2]], axis=1).mean(axis=0)
            ours, t = rates[[0, 1, 4]], rates[[2, 3, 5]]
            shown = " ".join(f"{one:8.1f}" for one in (*ours, *t))
            yield f"{name:22} {n:>5} {k:>3} {margin:6.2f} {shown}"


def _drawn(rng: np.random.Generator, name: str, n: int, k: int, drop: float) -> Numbers:
    """(n,) changes of the document means."""
    if name.startswith("same"):
        before, now = np.full(n, 0.7), np.full(n, 0.7 - drop)
    elif name.startswith("rates"):
        before = rng.beta(0.5, 0.5, n)
        now = before * (1 - 2 * drop)
    else:
        before = np.full(n, 0.99)
        now = np.where(rng.random(n) < drop / 0.99, 0.0, 0.99)
    means = [rng.binomial(k, rate) / k for rate in (before, now)]
    return np.asarray(means[1] - means[0])


def _both(changes: Numbers, margin: float) -> tuple[bool, bool, bool, bool]:
    n = len(changes)
    ours = bounded_mean(changes.tolist(), low=-1, high=1)
    error = changes.std(ddof=1) / n**0.5
    away, edge = changes.mean() + margin, student.isf(0.05, n - 1) * error
    return (
        ours.p_greater(-margin) <= 0.05,
        ours.p_less(-margin) <= 0.05,
        bool(away >= edge),
        bool(away < -edge),
    )
