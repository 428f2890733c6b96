"""Human labels that correct a judge: error rates of gates, and widths of intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pytest_evals.stats.interval_methods import Proportion, quantile
from pytest_evals.stats.prediction_powered import (
    mean_of_population,
    mean_of_run,
    tuned_weight,
)
from tests.simulations.cells import Cell, outcome, sampled
from tests.simulations.populations import Numbers

__all__ = ["clustered_judges", "judges", "label_rows"]

OTHERS = 400
"""Documents without a label."""
GRADES = np.linspace(0, 1, 5)
Judge = Callable[[np.random.Generator, Numbers], Numbers]


def of_rates(accepts_good: float, refuses_bad: float) -> Judge:
    """A judge of pass and fail with these rates."""

    def rate(rng: np.random.Generator, truth: Numbers) -> Numbers:
        chance = np.where(truth == 1, accepts_good, 1 - refuses_bad)
        return (rng.random(len(truth)) < chance).astype(float)

    return rate


def of_grades(noise: float, lenient: float) -> Judge:
    """A judge of five grades: some are random, some one grade too good."""

    def rate(rng: np.random.Generator, truth: Numbers) -> Numbers:
        n = len(truth)
        rated = np.where(rng.random(n) < noise, rng.choice(GRADES, n), truth)
        return np.minimum(1, rated + 0.25 * (rng.random(n) < lenient))

    return rate


JUDGES: dict[str, Judge] = {
    "useless": of_rates(0.5, 0.5),
    "70% right": of_rates(0.7, 0.7),
    "95% right": of_rates(0.95, 0.95),
    "perfect": of_rates(1, 1),
    "lenient": of_rates(0.99, 0.5),
    "always passes": of_rates(1, 0),
}
"""Judges of pass and fail."""
GRADERS: dict[str, Judge] = {
    "perfect": of_grades(0, 0),
    "lenient": of_grades(0, 0.5),
    "60% random": of_grades(0.6, 0.2),
}
"""Judges of grades."""
SHARES: dict[str, Sequence[float]] = {
    "80% best": [0.01, 0.01, 0.03, 0.15, 0.8],
    "even": [0.2] * 5,
    "97% best": [0.03, 0, 0, 0, 0.97],
}
"""Proportions of the five grades."""


class Ratings(NamedTuple):
    """Labels, the judge's ratings of the same documents, and of others."""

    human: list[float]
    judge: list[float]
    others: list[float]
    run: float
    """The mean human rating of all documents of the run."""


def drawn(
    rng: np.random.Generator, truth: Numbers, judge: Judge, n_labels: int
) -> Ratings:
    """The ratings of a run, of which a random sample is labelled."""
    truth = rng.permutation(truth)
    rated, n = judge(rng, truth), n_labels
    parts = (truth[:n], rated[:n], rated[n:])
    return Ratings(*(one.tolist() for one in parts), run=float(truth.mean()))


def judges(
    sizes: Sequence[int] = (30, 100), graders: Mapping[str, Judge] = GRADERS
) -> Iterator[Cell]:
    """Gates on a judge, with the number of human labels as n."""
    for rate in (0.5, 0.8, 0.95, 0.99):
        for name, judge in JUDGES.items():
            for n in sizes:
                yield from _cells(f"{name}, rate {rate}", [1 - rate, rate], judge, n)
    for shares_name, shares in SHARES.items():
        for name, judge in graders.items():
            for n in sizes:
                yield from _cells(f"{name}, grades {shares_name}", shares, judge, n)


def _cells(name: str, shares: Sequence[float], judge: Judge, n: int) -> Iterator[Cell]:
    grades = np.linspace(0, 1, len(shares))
    mean = float(grades @ np.array(shares))

    def of_run(rng: np.random.Generator) -> str:
        truth = rng.choice(grades, n + OTHERS, p=shares)
        found = drawn(rng, truth, judge, n)
        return outcome(mean_of_run(*found[:3]), found.run)

    def of_population(rng: np.random.Generator) -> str:
        truth = rng.choice(grades, n + OTHERS, p=shares)
        return outcome(mean_of_population(*drawn(rng, truth, judge, n)[:3]), mean)

    yield sampled("labels, run", name, n, of_run)
    if len(shares) == 2:  # those of grades are slow
        yield sampled("labels, population", name, n, of_population)


def clustered_judges(sizes: Sequence[int] = (60,)) -> Iterator[Cell]:
    """Gates on a judge with ``cluster``: whole clusters of 4 documents are labelled.

    Answers of a cluster are correlated (ICC 0.5), and the judge makes the same error in
    all of them.
    """
    for rate in (0.95,):
        for name in ("70% right", "95% right", "lenient"):
            for n in sizes:
                yield _clustered_cell(f"{name}, rate {rate}", rate, JUDGES[name], n)


def _clustered_cell(name: str, rate: float, judge: Judge, n: int) -> Cell:
    size = 4
    n_labelled, n_all = n // size, (n + OTHERS) // size

    def sample(rng: np.random.Generator) -> str:
        chance = rng.beta(rate, 1 - rate, n_all).repeat(size)
        truth = (rng.random(n_all * size) < chance).astype(float)
        good, bad = judge(rng, np.ones(n_all)), judge(rng, np.zeros(n_all))
        rated = np.where(truth == 1, good.repeat(size), bad.repeat(size))
        ids = np.arange(n_all).repeat(size).tolist()
        cut = n_labelled * size
        parts = (truth[:cut], rated[:cut], rated[cut:])
        spread = mean_of_population(
            *(one.tolist() for one in parts), clusters=(ids[:cut], ids[cut:])
        )
        return outcome(spread, rate)

    return sampled("labels, clusters", name, n, sample)


def label_rows(n_samples: int) -> Iterator[str]:
    """Mean width of a 90% interval over the population, and how often its lower and its
    upper limit miss the true rate (%): with labels and judge, with labels only, and by
    the normal interval of PPI++."""
    yield (
        f"{'judge':12} {'rate':>5} {'labels':>6} {'ours':>15} {'labels only':>15} "
        f"{'normal PPI++':>15}  (width, errors % low/high)"
    )
    for name in ("70% right", "95% right", "lenient"):
        for n in (30, 100):
            yield label_row(0.95, name, n, n_samples)


def label_row(rate: float, name: str, n: int, n_samples: int) -> str:
    """One row of :func:`label_rows`, for ``n`` labels and the judge of this name."""
    rng = np.random.default_rng([n, *name.encode()])
    found = np.array(
        [_limits(rng, rate, JUDGES[name], n) for _ in range(n_samples)]
    )  # (samples, methods, 2)
    width = (found[:, :, 1] - found[:, :, 0]).mean(axis=0)
    low = 100 * (found[:, :, 0] > rate + 1e-9).mean(axis=0)
    high = 100 * (found[:, :, 1] < rate - 1e-9).mean(axis=0)
    columns = zip(width, low, high, strict=True)
    return f"{name:12} {rate:>5} {n:>6} " + " ".join(
        f"{w:7.3f} {a:3.0f}/{b:<3.0f}" for w, a, b in columns
    )


def _limits(
    rng: np.random.Generator, rate: float, judge: Judge, n: int
) -> list[tuple[float, float]]:
    truth = (rng.random(n + OTHERS) < rate).astype(float)
    human, rated, others, _ = drawn(rng, truth, judge, n)
    ours = mean_of_population(human, rated, others).interval(0.95)
    alone = Proportion(sum(map(int, human)), n).interval(0.95)
    return [tuple(ours), tuple(alone), _normal(human, rated, others)]


def _normal(
    human: Sequence[float], judge: Sequence[float], others: Sequence[float]
) -> tuple[float, float]:
    """The interval of arXiv 2311.01453."""
    n, n_others = len(human), len(others)
    y, f, g = map(np.array, (human, judge, others))
    weight = tuned_weight(human, judge, others) / (1 + n / n_others)
    value = weight * g.mean() + (y - weight * f).mean()
    variance = (y - weight * f).var(ddof=1) / n + weight**2 * g.var(ddof=1) / n_others
    reach = quantile(0.95, float("inf")) * np.sqrt(variance)
    return float(value - reach), float(value + reach)
