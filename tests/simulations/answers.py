"""Correct and wrong answers: proportions, their changes, clusters, many gates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import product

import numpy as np

from pytest_evals.stats.interval_methods import Proportion, WidestInterval, holm
from pytest_evals.stats.mean_limits import bounded_mean
from pytest_evals.stats.paired_proportions import PairedProportions
from tests.simulations.cells import Cell, Rates, exact, outcome, sampled

__all__ = ["changes", "clusters", "families", "proportions", "tango_rates"]

ALPHA = 0.05


def proportions(
    thresholds: tuple[float, ...] = (0.5, 0.7, 0.9, 0.97, 0.99),
    sizes: tuple[int, ...] = (20, 50, 200, 1000),
) -> Iterator[Cell]:
    """The exact binomial test, summed over all outcomes."""
    for n in sizes:
        for p in thresholds:
            name = f"threshold {p:g}"
            yield exact("proportion", name, n, lambda p=p, n=n: binomial_rates(p, n))


def binomial_rates(p: float, n: int) -> Rates:
    """Rates of ``min: p`` for n documents, each correct with probability p."""
    from scipy.stats import binom

    least = bisect_left(
        range(n + 1), True, key=lambda k: Proportion(k, n).p_greater(p) <= ALPHA
    )
    most = bisect_left(
        range(n + 1), True, key=lambda k: Proportion(k, n).p_less(p) > ALPHA
    )
    return Rates(100 * binom.sf(least - 1, n, p), 100 * binom.cdf(most - 1, n, p))


def changes(
    margins: tuple[float, ...] = (0.01, 0.02, 0.03),
    sizes: tuple[int, ...] = (100, 200, 300, 500, 1000),
) -> Iterator[Cell]:
    """Tango's paired test, summed over all outcomes: the model is worse by the margin
    exactly."""
    for margin, n in product(margins, sizes):
        for rate in (margin, margin + 0.01, 0.05, 0.1):

            def rates(margin: float = margin, rate: float = rate, n=n) -> Rates:
                return tango_rates(n, rate, margin, -margin)

            name = f"margin {margin:.0%}, {rate:.0%} flip"
            yield exact("paired answers", name, n, rates)


def tango_rates(n: int, flips: float, margin: float, change: float) -> Rates:
    """Rates of ``max_drop: margin`` for a true change and a rate of flips.

    Args:
        n: Documents.
        flips: Share of documents whose answer changes, at least the change.
        margin: Of the gate.
        change: True change of the share of correct answers.
    """
    from scipy.stats import binom

    lost_share, gained_share = (flips - change) / 2, (flips + change) / 2
    passed = failed = 0.0
    for lost in range(int(binom.isf(1e-9, n, lost_share)) + 1):
        weight = binom.pmf(lost, n, lost_share)
        rest = n - lost
        share = max(0.0, gained_share / (1 - lost_share))

        def seen(gained: int, lost: int = lost) -> PairedProportions:
            return PairedProportions(gained, lost, n)

        gains = range(rest + 1)
        fails = bisect_left(gains, True, key=lambda g: seen(g).p_less(-margin) > ALPHA)
        passes = bisect_left(
            gains, True, key=lambda g: seen(g).p_greater(-margin) <= ALPHA
        )
        failed += weight * binom.cdf(fails - 1, rest, share)
        passed += weight * binom.sf(passes - 1, rest, share)
    return Rates(100 * passed, 100 * failed)


def clusters(numbers: tuple[int, ...] = (10, 20, 50, 200)) -> Iterator[Cell]:
    """Correct and wrong answers in clusters; n is the number of clusters."""
    for p in (0.5, 0.9, 0.97):
        for icc in (0.1, 0.5):
            for n in numbers:

                def sample(
                    rng: np.random.Generator, p: float = p, icc: float = icc, n=n
                ) -> str:
                    sizes = np.ceil(rng.lognormal(1.2, 0.8, n)).astype(int)
                    a = (1 - icc) / icc
                    skill = rng.beta(p * a, (1 - p) * a, n)
                    labels = np.repeat(np.arange(n), sizes)
                    right = (rng.random(len(labels)) < skill[labels]).astype(float)
                    found = bounded_mean(right.tolist(), clusters=labels.tolist())
                    return outcome(found, p)

                name = f"mean {p:g}, ICC {icc:g}, unequal"
                yield sampled("clusters", name, n, sample)
    for n, size in ((20, 10), (50, 10), (100, 5)):

        def even(rng: np.random.Generator, n=n, size=size) -> str:
            labels = np.repeat(np.arange(n), size)
            skill = rng.beta(0.9 * 2.333, 0.1 * 2.333, n)[labels]
            right = (rng.random(n * size) < skill).astype(float)
            found = bounded_mean(right.tolist(), clusters=labels.tolist())
            return outcome(found, 0.9)

        yield sampled("clusters", f"mean 0.9, ICC 0.3, {size} each", n, even)
    yield from _paired_clusters()


def _paired_clusters() -> Iterator[Cell]:
    for flips in (0.02, 0.05):
        for n, size in ((300, 1), (100, 5), (100, 10)):

            def whole(
                rng: np.random.Generator, flips: float = flips, n=n, size=size
            ) -> str:
                sizes = np.full(n, size)
                return _paired_outcome(sizes, rng.random(n) < flips, flips)

            def unequal(rng: np.random.Generator, flips: float = flips, n=n) -> str:
                sizes = np.ceil(rng.lognormal(1.2, 0.8, n)).astype(int)
                return _paired_outcome(sizes, rng.random(n) < flips, flips)

            name = f"{flips:.0%} of clusters of {size} lost"
            yield sampled("clusters, paired", name, n, whole)
            if size == 10:
                name = f"{flips:.0%} of unequal clusters lost"
                yield sampled("clusters, paired", name, n, unequal)


def _paired_outcome(sizes: np.ndarray, lost: np.ndarray, flips: float) -> str:
    """All answers of some clusters became wrong: by both methods, as a gate does."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    moved = -lost[labels].astype(float)
    shares = PairedProportions(0, int(-moved.sum()), len(moved))
    found = bounded_mean(moved.tolist(), low=-1, high=1, clusters=labels.tolist())
    return outcome(WidestInterval((shares, found)), -flips)


def families(
    cases: tuple[tuple[int, int, float], ...] = (
        (5, 100, 0.95),
        (20, 100, 0.95),
        (20, 300, 0.99),
        (57, 100, 0.95),
        (57, 1000, 0.99),
        (57, 1000, 0.7),
    ),
) -> Iterator[Cell]:
    """Any failure among G gates whose true values equal their thresholds, after Holm's
    correction. A pass is any pass, which needs no correction: all must pass."""
    for n_gates, n, p in cases:

        def sample(
            rng: np.random.Generator, n_gates: int = n_gates, n=n, p: float = p
        ) -> str:
            counts = rng.binomial(n, p, n_gates)
            least = min(holm([Proportion(int(k), n).p_less(p) for k in counts]))
            return "failed" if least <= ALPHA else "inconclusive"

        yield sampled("family", f"{n_gates} gates, threshold {p:g}", n, sample)
