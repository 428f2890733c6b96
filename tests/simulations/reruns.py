"""Runs of one unchanged model on the same documents: the point rule, and limits that
``--evals-repeatability`` proposes.

The model: a few documents are answered correctly in half of all runs, the others always
alike. Of N documents, 2 * flips * N are such, so that this share of all documents flips
between two runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from pytest_evals.run.repeatability import repeatability
from pytest_evals.stats.paired_proportions import PairedProportions

__all__ = [
    "false_alarms",
    "floor_failures",
    "point_failures",
    "point_rows",
    "repeatability_rows",
]

ALPHA = 0.05


def floor_failures(n: int, flips: float, above: float) -> tuple[float, float]:
    """How often a point rule ``min`` fails a model whose mean is above the threshold:
    in one run, and at least once in 20."""
    from scipy.stats import binom

    unsure = round(2 * flips * n)
    once = binom.cdf(math.ceil(unsure / 2 - above * n - 1e-9) - 1, unsure, 0.5)
    return 100 * once, 100 * (1 - (1 - once) ** 20)


def point_failures(n: int, flips: float, margin: float) -> tuple[float, ...]:
    """How often ``max_drop`` fails an unchanged model, compared with one noisy run: in
    one run, and at least once in 20 runs with the same baseline; first by the point
    rule ``over: run``, then by the paired test ``over: population``. In percent."""
    from scipy.stats import binom

    unsure = round(2 * flips * n)
    rates = np.zeros(4)
    for before in range(unsure + 1):
        weight = binom.pmf(before, unsure, 0.5)
        most = math.ceil(before - margin * n - 1e-9) - 1
        point = binom.cdf(most, unsure, 0.5)
        proven = 0.0
        for lost in range(before + 1):
            gained = np.arange(unsure - before + 1)
            failing = [
                PairedProportions(int(g), lost, n).p_less(-margin) <= ALPHA
                for g in gained
                if g < lost
            ]
            chance = binom.cdf(sum(failing) - 1, unsure - before, 0.5)
            proven += binom.pmf(lost, before, 0.5) * chance
        many = [1 - (1 - one) ** 20 for one in (point, proven)]
        rates += weight * np.array([point, many[0], proven, many[1]])
    return tuple(100 * rates)


def false_alarms(
    n: int, flips: float, k: int, n_samples: int, deviations: float = 2.0
) -> tuple[float, float, float]:
    """How often another run of the same model falls below a limit proposed from K runs.

    Returns:
        In percent: stated; measured with the standard deviation of one run; measured
        with it times the root of 1 + 1/K.
    """
    from scipy.stats import binom

    rng = np.random.default_rng([n, k, round(1e4 * flips)])
    unsure = round(2 * flips * n)
    found = np.zeros(2)
    for _ in range(n_samples):
        runs = (rng.random((k, unsure)) < 0.5).astype(float)
        seen = repeatability(runs.tolist())
        sd = math.sqrt(seen.rate * unsure / 2)
        for i, factor in enumerate((1.0, math.sqrt(1 + 1 / k))):
            # Half of a lattice step is counted, as limits fall anywhere between steps.
            limit = seen.mean * unsure - deviations * factor * sd
            below = binom.cdf(math.ceil(limit) - 1, unsure, 0.5)
            at = binom.cdf(math.floor(limit), unsure, 0.5)
            found[i] += (below + at) / 2
    stated = 100 * NormalDist().cdf(-deviations)
    return stated, *(100 * found / n_samples)


def point_rows() -> Iterator[str]:
    """Tables of the point rule."""
    yield "point rule `min`, unchanged model: fails once, at least once in 20 runs (%)"
    yield f"{'n':>5} {'flips':>6} " + "".join(
        f"{f'+{above:g} pt':>18} " for above in (0, 0.5, 1, 2)
    )
    for n, flips in ((300, 0.035), (1000, 0.035), (1319, 0.035)):
        rates = [floor_failures(n, flips, above / 100) for above in (0, 0.5, 1, 2)]
        yield f"{n:>5} {flips:>6.1%} " + "".join(
            f"{once:11.1f} {ever:6.1f} " for once, ever in rates
        )
    yield "`max_drop`, unchanged model against one noisy baseline (%)"
    yield (
        f"{'n':>5} {'flips':>6} {'margin':>7} {'point':>8} {'20 runs':>8} "
        f"{'paired':>8} {'20 runs':>8}"
    )
    for n, flips in ((200, 0.035), (200, 0.1), (500, 0.05), (1000, 0.05)):
        for margin in (0.01, 0.02, 0.03):
            rates = point_failures(n, flips, margin)
            yield f"{n:>5} {flips:>6.1%} {100 * margin:>5.0f}pt " + " ".join(
                f"{rate:8.1f}" for rate in rates
            )


def repeatability_rows(n_samples: int) -> Iterator[str]:
    """The table of limits that ``--evals-repeatability`` proposes."""
    yield "limit of K runs: another run falls below it (%)"
    yield f"{'K':>3} {'sd':>4} {'stated':>7} {'without':>8} {'sqrt(1+1/K)':>12}"
    for k in (2, 4, 10):
        for deviations in (2.0, 3.0):
            rates = false_alarms(1000, 0.05, k, n_samples, deviations)
            yield (
                f"{k:>3} {deviations:>4g} {rates[0]:7.2f} {rates[1]:8.2f} "
                f"{rates[2]:12.2f}"
            )
