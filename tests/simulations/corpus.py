"""Intervals of changes of metrics that are not means of documents, as comparisons of
two runs show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pytest_evals.core.comparison import MetricChange
from pytest_evals.core.metric import Metric
from pytest_evals.run.metric_changes import (
    Estimates,
    group_estimates,
    metric_changes,
    paired_estimates,
)
from pytest_evals.scorers.metrics import MetricSpec, metric
from tests.simulations.cells import Cell, sampled

__all__ = ["corpus", "perplexity_rows"]

KEY = "x,none"
SIDES = ("failed", "passed")
Pair = tuple[list[Any], list[Any]]


def _known(name: str, kind: str, aggregation: str | None = None) -> Metric:
    spec = MetricSpec(name=name, aggregation=aggregation)
    return metric(spec, "none", kind, declared=True)


def _f1(rng: np.random.Generator, n: int) -> Pair:
    """Precision 0.8 of both, and recall 0.7 and 0.8; errors of both often coincide."""
    gold, both, own = rng.random(n) < 0.5, rng.random(n), rng.random((2, n))
    sides = []
    for recall, noise in zip((0.7, 0.8), own, strict=True):
        hit = np.where(both < 0.7, both / 0.7, noise)
        sides.append(np.where(gold, hit < recall, hit < recall / 4))
    old, new = ([*zip(gold.tolist(), one.tolist(), strict=True)] for one in sides)
    return old, new


def _texts(rng: np.random.Generator, n: int) -> Pair:
    """Log-probabilities and lengths of texts; the second model is 3% worse."""
    words = np.ceil(rng.lognormal(3, 0.7, n))
    hard = rng.gamma(8, 3 / 8, n)
    own = rng.normal(0, 0.3, (2, n))
    old, new = (-words * (hard * f + e) for f, e in zip((1, 1.03), own, strict=True))
    return (
        [*zip(old.tolist(), words.tolist(), strict=True)],
        [*zip(new.tolist(), words.tolist(), strict=True)],
    )


def _few_worse(rng: np.random.Generator, n: int) -> Pair:
    """The same, of which 10% become much worse, by 0.5 nats a word on average."""
    old, _ = _texts(rng, n)
    worse = np.where(rng.random(n) < 0.1, rng.normal(0.5, 0.5, n), 0)
    pairs = zip(old, worse.tolist(), strict=True)
    return old, [(nats - words * by, words) for (nats, words), by in pairs]


def _times(rng: np.random.Generator, n: int) -> Pair:
    """Skewed numbers with medians 1 and 1.1."""
    common = rng.normal(0, 0.8, n)
    old, new = (m * np.exp(common + rng.normal(0, 0.4, n)) for m in (1, 1.1))
    return old.tolist(), new.tolist()


def _f1_change() -> float:
    before, now = (2 * r / (1 + r + r / 4) for r in (0.7, 0.8))
    return now - before


_CASES: dict[str, tuple[Metric, Callable[..., Pair], float]] = {
    "F1": (_known("f1", "multiple_choice"), _f1, _f1_change()),
    "word perplexity": (
        _known("word_perplexity", "loglikelihood_rolling"),
        _texts,
        float(np.expm1(3 * 0.03)),
    ),
    "median": (_known("x", "generate_until", "median"), _times, 0.1),
}
"""Name → metric, a sample of both runs, and the true change."""


def _estimated(how: Metric, pair: Pair) -> tuple[list[dict[str, float]], Estimates]:
    assert how.number is not None
    numbers = [{KEY: how.number(values)} for values in pair]
    values = [{KEY: dict(enumerate(each))} for each in pair]
    found = paired_estimates(
        (numbers[0], numbers[1]),
        (values[0], values[1]),
        lambda _: [how],
        lambda _: None,
    )
    return numbers, found


def _side(one: MetricChange, change: float) -> str:
    """The limit that excludes the true change, as a gate on it would."""
    if one.low is None or one.high is None:  # no document differs
        return "inconclusive"
    if one.low > change:
        return "passed"
    return "failed" if one.high < change else "inconclusive"


def corpus(sizes: Sequence[int] = (40, 100, 400)) -> Iterator[Cell]:
    """Changes of corpus metrics, perplexities, medians, and of groups of them."""
    for name, (how, draw, change) in _CASES.items():
        for n in sizes:

            def sample(
                rng: np.random.Generator, how=how, draw=draw, change=change, n=n
            ) -> str:
                numbers, found = _estimated(how, draw(rng, n))
                (one,) = metric_changes("x", (numbers[0], numbers[1]), {}, found)
                return _side(one, change)

            yield sampled("change", name, n, sample)
    for n in sizes:

        def group(rng: np.random.Generator, n=n) -> str:
            how, draw, change = _CASES["F1"]
            parts = [_estimated(how, draw(rng, size)) for size in (n, 3 * n)]
            before, now = (
                {KEY: sum(numbers[i][KEY] for numbers, _ in parts) / 2} for i in (0, 1)
            )
            estimates = {"a": parts[0][1], "b": parts[1][1]}
            found = group_estimates((before, now), ["a", "b"], estimates, {})
            (one,) = metric_changes("x", (before, now), {}, found)
            return _side(one, change)

        yield sampled("change", "F1 of a group of two", n, group)


def perplexity_rows(n_samples: int) -> Iterator[str]:
    """How often the interval of the change of a perplexity does not contain the true
    change, if few texts become much worse."""
    how, change = _CASES["word perplexity"][0], float(np.expm1(0.1 * 0.5))
    yield "word perplexity, 10% of the texts worse by 0.5 nats a word (%)"
    yield "texts  interval below the true change  above it"
    for n in (20, 60, 200, 500, 1000):
        rng = np.random.default_rng(n)
        found = []
        for _ in range(n_samples):
            numbers, estimates = _estimated(how, _few_worse(rng, n))
            (one,) = metric_changes("x", (numbers[0], numbers[1]), {}, estimates)
            found.append(_side(one, change))
        low, high = (100 * found.count(side) / n_samples for side in SIDES)
        yield f"{n:>5}  {low:30.1f}  {high:8.1f}"
