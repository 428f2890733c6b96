"""How often gates pass or fail although they should not: stated and measured.

Scores are drawn from populations whose true mean, or true change, lies exactly on the
threshold or the margin. There, at confidence 0.95, a gate may pass in at most 5 of 100
samples and fail in at most 5 of 100. The script prints what happens, with the standard
error of the simulation:

    python tests/simulations/error_rates.py [--samples 2000] [--only SECTION]

Everything is seeded. Only ``pytest_evals.judge`` and ``judge_all`` are called, as a
user would.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_evals import judge, judge_all

STATED = 5.0
Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]


class Cell(NamedTuple):
    """One population and one number of documents.

    Args:
        section: Kind of gate.
        name: The population.
        n: Documents.
        sample: Draws one data set and judges it: the outcome.
    """

    section: str
    name: str
    n: int
    sample: Callable[[np.random.Generator], str]


def marks(rng: np.random.Generator, n: int) -> Numbers:
    """95% full marks, the others uniform."""
    return np.where(rng.random(n) < 0.95, 1.0, rng.random(n))


BOUNDED: dict[str, tuple[Draw, float]] = {
    "95% full marks": (marks, 0.975),
    "95% full marks, else 0.9": (
        lambda rng, n: np.where(rng.random(n) < 0.95, 1.0, 0.9),
        0.995,
    ),
    "judge marks in steps of 0.2": (
        lambda rng, n: rng.choice(
            [1, 0.8, 0.6, 0.4, 0.2, 0], n, p=[0.95, 0.02, 0.01, 0.01, 0.005, 0.005]
        ),
        0.977,
    ),
    "U-shaped": (lambda rng, n: rng.beta(0.2, 0.2, n), 0.5),
    "U-shaped, mean 0.9": (lambda rng, n: rng.beta(0.45, 0.05, n), 0.9),
    "90% zeros": (
        lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.random(n)),
        0.05,
    ),
    "skewed": (lambda rng, n: rng.beta(0.5, 10, n), 0.5 / 10.5),
    "like ROUGE": (lambda rng, n: rng.beta(2, 5, n), 2 / 7),
}
UNBOUNDED: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.normal(3, 1, n), 3.0),
    "exponential": (lambda rng, n: rng.exponential(1, n), 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(0, 1, n), math.exp(0.5)),
}
SIZES = (10, 30, 100, 300, 1000, 3000)


def proportions() -> Iterator[Cell]:
    """Right and wrong answers."""
    for p in (0.02, 0.1, 0.5, 0.75, 0.9, 0.97, 0.99):
        for n in (10, 20, 100, 300, 1000, 3000):

            def sample(rng: np.random.Generator, p: float = p, n: int = n) -> str:
                gate = {"min": p, "over": "population"}
                return judge(gate, (rng.random(n) < p).tolist()).outcome

            yield Cell("proportions", f"{p:g}", n, sample)


def means() -> Iterator[Cell]:
    """Scores between 0 and 1, and unbounded ones."""
    kinds = [("means", BOUNDED, (0, 1)), ("unbounded", UNBOUNDED, None)]
    for section, populations, ends in kinds:
        for name, (draw, mean) in populations.items():
            for n in SIZES if ends else SIZES[:5]:

                def sample(
                    rng: np.random.Generator,
                    draw: Draw = draw,
                    mean: float = mean,
                    n: int = n,
                    ends: Any = ends,
                ) -> str:
                    gate = {"min": mean, "over": "population"}
                    return judge(gate, draw(rng, n), range=ends).outcome

                yield Cell(section, name, n, sample)


def repeats() -> Iterator[Cell]:
    """Means of several answers, over other documents and over further runs."""
    for over in ("population", "benchmark"):
        for k in (2, 4):
            for n in (10, 30, 100, 300):

                def sample(
                    rng: np.random.Generator, over: str = over, k: int = k, n: int = n
                ) -> str:
                    skill = np.where(rng.random(n) < 0.9, 1.0, rng.beta(7, 3, n))
                    truth = 0.97 if over == "population" else float(skill.mean())
                    answers = rng.random((n, k)) < skill[:, None]
                    gate = {"min": truth, "over": over, "confidence": 0.95}
                    return judge(gate, answers.tolist(), repeats=k).outcome

                yield Cell(f"repeats, {over}", f"K={k}", n, sample)


def paired() -> Iterator[Cell]:
    """Changes of scores between 0 and 1, of which few or all differ."""
    for changed in (0.01, 0.03, 0.05, 0.1):
        for n in (20, 60, 100, 300, 1000):

            def sample(
                rng: np.random.Generator, changed: float = changed, n: int = n
            ) -> str:
                old = np.where(rng.random(n) < 0.7, 1.0, rng.random(n))
                new = np.where(rng.random(n) < changed, rng.random(n) * old, old)
                # A changed score is halved on average, of a mean of 0.85.
                gate = {"max_drop": changed * 0.425, "baseline": "main"}
                return judge(gate, new, baseline=old).outcome

            yield Cell("paired, few change", f"{changed:.0%} change", n, sample)
    for rho in (0.0, 0.8, 0.98):
        for n in (10, 30, 100, 300):

            def sample(rng: np.random.Generator, rho: float = rho, n: int = n) -> str:
                old = rng.beta(2, 2, n)
                other = rng.beta(2, 2, n)
                keep = rng.random(n) < rho
                new = np.where(keep, old, other) * 0.95
                gate = {"max_drop": 0.025, "baseline": "main"}
                return judge(gate, new, baseline=old).outcome

            yield Cell("paired, all change", f"{rho:g} kept", n, sample)


def clusters() -> Iterator[Cell]:
    """Right and wrong answers in clusters of unequal sizes."""
    for p in (0.5, 0.9):
        for icc in (0.1, 0.5):
            for n_clusters in (10, 20, 50, 200):

                def sample(
                    rng: np.random.Generator,
                    p: float = p,
                    icc: float = icc,
                    n_clusters: int = n_clusters,
                ) -> str:
                    sizes = np.ceil(rng.lognormal(1.2, 0.8, n_clusters)).astype(int)
                    a = (1 - icc) / icc
                    skill = rng.beta(p * a, (1 - p) * a, n_clusters)
                    labels = np.repeat(np.arange(n_clusters), sizes)
                    answers = rng.random(len(labels)) < skill[labels]
                    gate = {"min": p, "over": "population"}
                    labels_ = labels.tolist()
                    return judge(gate, answers.tolist(), clusters=labels_).outcome

                name = f"{p:g}, ICC {icc:g}"
                yield Cell("clusters, unequal", name, n_clusters, sample)
    for flips in (0.02, 0.05):
        for n, size in ((300, 1), (500, 5), (1000, 10)):

            def sample(
                rng: np.random.Generator,
                flips: float = flips,
                n: int = n,
                size: int = size,
            ) -> str:
                labels = np.arange(n) // size
                # Whole clusters flip half of the time, from right to wrong.
                moved = rng.random(n // size) < flips
                lost = moved[labels]
                gate = {"max_drop": flips, "baseline": "main"}
                return judge(
                    gate,
                    (~lost).tolist(),
                    baseline=[True] * n,
                    clusters=labels.tolist(),
                ).outcome

            yield Cell("clusters, paired", f"flips {flips:g}, size {size}", n, sample)


def families() -> Iterator[Cell]:
    """Any failure among so many true gates."""
    for n_gates, n, p in ((5, 100, 0.95), (20, 300, 0.99), (57, 100, 0.95)):

        def sample(
            rng: np.random.Generator, n_gates: int = n_gates, n: int = n, p: float = p
        ) -> str:
            gate = {"min": p, "over": "population"}
            gates: Any = {
                str(i): (gate, (rng.random(n) < p).tolist()) for i in range(n_gates)
            }
            found = {one.outcome.value for one in judge_all(gates).values()}
            return "failed" if "failed" in found else "inconclusive"

        yield Cell("families", f"{n_gates} gates, {p:g}", n, sample)


SECTIONS = (proportions, means, repeats, paired, clusters, families)


def measure(cell: Cell, n_samples: int) -> tuple[float, float]:
    """Passes and failures, in percent."""
    rng = np.random.default_rng([cell.n, *cell.name.encode()])
    found = [cell.sample(rng) for _ in range(n_samples)]
    return tuple(100 * found.count(one) / n_samples for one in ("passed", "failed"))  # type: ignore[return-value]


def too_many(percent: float, n_samples: int) -> bool:
    """Whether it is above the stated rate by more than 2 points and two standard
    errors of the simulation."""
    error = 100 * math.sqrt(0.05 * 0.95 / n_samples)
    return percent > STATED + 2 + 2 * error


def main() -> None:
    """Print all cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--only", default="", help="begin of a section's name")
    given = parser.parse_args()
    start, worst = time.perf_counter(), 0
    error = 100 * math.sqrt(0.05 * 0.95 / given.samples)
    print(f"{given.samples} samples a cell; standard error {error:.1f} points at 5%")
    print(f"{'gate':22} {'population':28} {'n':>5} {'passed %':>9} {'failed %':>9}")
    for cells in SECTIONS:
        for cell in cells():
            if not cell.section.startswith(given.only):
                continue
            passed, failed = measure(cell, given.samples)
            is_bad = too_many(passed, given.samples) or too_many(failed, given.samples)
            worst += is_bad
            print(
                f"{cell.section:22} {cell.name:28} {cell.n:>5} {passed:9.1f} "
                f"{failed:9.1f}{'  above the stated rate' * is_bad}",
                flush=True,
            )
    print(f"{worst} cells above; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
