"""Means of scores, alone and over repeats, and their changes since a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pytest_evals import judge_gate
from pytest_evals.stats.averages import mean_over_reruns
from pytest_evals.stats.mean_limits import bounded_mean
from tests.simulations.cells import Cell, outcome, sampled
from tests.simulations.populations import BOUNDED, UNBOUNDED, Draw, Numbers

__all__ = ["means", "paired", "repeats", "unbounded"]

SIZES = (10, 30, 100, 300, 1000, 3000)


def means(sizes: Sequence[int] = SIZES) -> Iterator[Cell]:
    """Means of scores between 0 and 1."""
    for name, (draw, mean) in BOUNDED.items():
        for n in sizes:

            def sample(
                rng: np.random.Generator, draw: Draw = draw, mean: float = mean, n=n
            ) -> str:
                return outcome(bounded_mean(draw(rng, n).tolist()), mean)

            yield sampled("mean", name, n, sample)


def unbounded(sizes: Sequence[int] = (10, 30, 100, 300)) -> Iterator[Cell]:
    """Means of scores without a range."""
    for name, (draw, mean) in UNBOUNDED.items():
        for n in sizes:

            def sample(
                rng: np.random.Generator, draw: Draw = draw, mean: float = mean, n=n
            ) -> str:
                gate = {"min": mean, "over": "population"}
                return str(judge_gate(gate, draw(rng, n), range=None).outcome)

            yield sampled("unbounded mean", name, n, sample)


def repeats(sizes: Sequence[int] = (10, 30, 100, 300)) -> Iterator[Cell]:
    """Means of K answers to each document: 90% of documents are always right, or all
    have the same rate."""
    for k in (2, 4, 8):
        for n in sizes:

            def answers(rng: np.random.Generator, n=n, k=k) -> tuple[Numbers, float]:
                skill = np.where(rng.random(n) < 0.9, 1.0, rng.beta(7, 3, n))
                given = rng.random((n, k)) < skill[:, None]
                return given.astype(float), float(skill.mean())

            def others(rng: np.random.Generator, answers=answers) -> str:
                given, _ = answers(rng)
                return outcome(bounded_mean(given.mean(axis=1).tolist()), 0.97)

            def again(rng: np.random.Generator, answers=answers) -> str:
                given, skill = answers(rng)
                return outcome(mean_over_reruns(given.tolist(), (0, 1)), skill)

            yield sampled("repeats, population", f"K={k}, mean 0.97", n, others)
            yield sampled("repeats, benchmark", f"K={k}, mean 0.97", n, again)
            for rate in (0.8, 0.9, 0.98):

                def shared(
                    rng: np.random.Generator, rate: float = rate, n=n, k=k
                ) -> str:
                    given = (rng.random((n, k)) < rate).astype(float).tolist()
                    return outcome(mean_over_reruns(given, (0, 1)), rate)

                yield sampled("repeats, benchmark", f"K={k}, all {rate}", n, shared)


def paired(sizes: Sequence[int] = (10, 20, 60, 100, 300, 1000)) -> Iterator[Cell]:
    """Changes of scores between 0 and 1, of which few or all differ."""
    for share in (0.0, 0.01, 0.03, 0.05, 0.1):
        for n in sizes:

            def few(rng: np.random.Generator, share: float = share, n=n) -> str:
                old = np.where(rng.random(n) < 0.7, 1.0, rng.random(n))
                new = np.where(rng.random(n) < share, rng.random(n) * old, old)
                # A changed score is halved on average, of a mean of 0.85.
                return _change(old, new, -0.425 * share)

            yield sampled("paired scores", f"{share:.0%} change, all drop", n, few)
    for share in (0.03, 0.1):
        for n in sizes:

            def both(rng: np.random.Generator, share: float = share, n=n) -> str:
                old = np.where(rng.random(n) < 0.5, 1.0, 0.2)
                new = np.where(rng.random(n) < share, 1.2 - old, old)
                return _change(old, new, 0.0)

            yield sampled("paired scores", f"{share:.0%} change both ways", n, both)
    for rho in (0.0, 0.5, 0.8, 0.98):
        for n in sizes[:-1]:

            def all_(rng: np.random.Generator, rho: float = rho, n=n) -> str:
                first, other = rng.beta(2, 2, (2, n))
                new = np.where(rng.random(n) < rho, first, other) * 0.95
                return _change(first, new, -0.025)

            yield sampled("paired scores", f"correlation {rho:g}", n, all_)


def _change(old: Numbers, new: Numbers, truth: float) -> str:
    return outcome(bounded_mean((new - old).tolist(), low=-1, high=1), truth)
