"""Cells of the simulations: a population, a number of documents, and the error rate of
a gate.

The true value of each cell is exactly the threshold or the margin. There, at confidence
0.95, a gate may pass on at most 5% of samples and fail on at most 5%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pytest_evals.stats.interval_methods import IntervalEstimate

__all__ = ["ALLOWED", "STATED", "Cell", "Rates", "exact", "outcome", "sampled"]

STATED = 5.0
"""Percent of samples on which a gate may pass, and on which it may fail."""
ALLOWED = 2.0
"""Points above the stated rate that are not reported."""


class Rates(NamedTuple):
    """How often a gate passes and fails, in percent.

    Args:
        passed: Of samples.
        failed: Of samples.
        n_samples: Samples; 0 if all outcomes were summed with their probabilities.
    """

    passed: float
    failed: float
    n_samples: int = 0

    @property
    def error(self) -> float:
        """Standard error of the simulation at the stated rate, in points."""
        rate = STATED / 100
        return (
            100 * math.sqrt(rate * (1 - rate) / self.n_samples) if self.n_samples else 0
        )

    @property
    def is_above(self) -> bool:
        """Whether a rate is above the stated one by more than 2 points and two standard
        errors of the simulation."""
        return bool(max(self.passed, self.failed) > STATED + ALLOWED + 2 * self.error)


class Cell(NamedTuple):
    """One population and one number of documents.

    Args:
        rule: Name of the rule.
        population: Description of the scores.
        n: Documents, or clusters.
        measure: Number of samples → rates.
    """

    rule: str
    population: str
    n: int
    measure: Callable[[int], Rates]


Sample = Callable[[np.random.Generator], str]


def sampled(rule: str, population: str, n: int, sample: Sample) -> Cell:
    """A simulated cell, with a separate seed.

    Args:
        rule: Name of the rule.
        population: Description of the scores.
        n: Documents.
        sample: Draws one data set and judges it: the outcome.
    """

    def measure(n_samples: int) -> Rates:
        rng = np.random.default_rng([n, *rule.encode(), *population.encode()])
        found = [sample(rng) for _ in range(n_samples)]
        passed, failed = (found.count(one) for one in ("passed", "failed"))
        return Rates(100 * passed / n_samples, 100 * failed / n_samples, n_samples)

    return Cell(rule, population, n, measure)


def exact(rule: str, population: str, n: int, rates: Callable[[], Rates]) -> Cell:
    """A cell whose outcomes are summed with their probabilities."""
    return Cell(rule, population, n, lambda _: rates())


def outcome(
    spread: IntervalEstimate, threshold: float, confidence: float = 0.95
) -> str:
    """The verdict of a gate ``min: threshold`` on a number.

    Uses the p-values that decide in ``judge``; ``test_quick`` checks that both agree.
    Limits and sentences, which take most of the time of ``judge``, are not made.
    """
    alpha = 1 - confidence
    if spread.p_greater(threshold) <= alpha:
        return "passed"
    return "failed" if spread.p_less(threshold) <= alpha else "inconclusive"


def printed(cells: Iterator[Cell], n_samples: int) -> int:
    """Print a table of cells; returns how many are above the stated rate."""
    above = 0
    line = f"{'rule':20} {'population':30} {'n':>5} {'passed %':>9} {'failed %':>9}"
    print(f"{line}  (stated: at most {STATED:g} each)")
    for cell in cells:
        rates = cell.measure(n_samples)
        above += rates.is_above
        print(
            f"{cell.rule:20} {cell.population:30} {cell.n:>5} {rates.passed:9.1f} "
            f"{rates.failed:9.1f}{'  above the stated rate' * rates.is_above}",
            flush=True,
        )
    return above
