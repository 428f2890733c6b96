"""Run-to-run variability of a metric, and the thresholds that it permits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_evals.core.finite import is_finite
from pytest_evals.core.metric import Metric
from pytest_evals.gates.power import chance_below
from pytest_evals.stats.averages import mean, mean_stderr

AWAY = (2, 3)  # standard deviations from the mean to the proposed thresholds
_STEPS = 1000
"""Thresholds of shares are rounded to multiples of 1 / this; others to a tenth of the
standard deviation."""


class Repeatability(NamedTuple):
    """Variation observed over repeated runs on the same documents."""

    mean: float
    rate: float
    """Mean squared change of a document between two runs; for correct/wrong answers,
    the flip rate."""
    stderr: float  # standard deviation of a run's mean, derived from that rate
    spread: float  # observed standard deviation of the runs' means


def repeatability(values: Sequence[Sequence[float]]) -> Repeatability:
    """The variation between runs. ``values``: (k, n) a number for each of n
    documents in each of k runs, k at least 2."""
    import numpy as np  # late: slow, and few gates need it

    table = np.array(values, dtype=float)
    means = table.mean(axis=1)
    # The square of a difference of two draws is twice their variance, on average.
    rate = 2 * float(table.var(axis=0, ddof=1).mean())
    n = table.shape[1]
    return Repeatability(
        float(means.mean()), rate, (rate / (2 * n)) ** 0.5, float(means.std(ddof=1))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRepeatability:
    """Repeatability of one metric over several runs."""

    task: str
    key: str
    n_runs: int
    n: int  # number of documents with a value in each run
    mean: float
    stderr: float  # standard deviation of the metric between runs
    flip_rate: float
    """Mean square of a document's change between two runs; for correct and wrong
    answers, the flip rate."""
    sampling: float  # standard error over other documents
    thresholds: Mapping[float, float]
    """Threshold → probability that an unchanged model fails it; the tightest first,
    none without variation."""
    is_share: bool  # whether documents are correct or wrong

    def lines(self) -> list[str]:
        """Return the flip rate, and the thresholds that it allows, as text."""
        changes = f"documents change by {math.sqrt(self.flip_rate):.3g}"
        flips = f"{100 * self.flip_rate:.1f}% of answers flip"
        lines = [
            f"{self.task}: {self.key}, {self.n_runs} runs of {self.n:,} documents: "
            f"mean {self.mean:.4f}, run-to-run sd {self.stderr:.4f}, "
            f"{flips if self.is_share else changes}",
            f"  sampling error of the documents themselves: {self.sampling:.4f} "
            "(matters only beyond these)",
        ]
        if not self.flip_rate:
            lines.append(
                "  no answer flipped: this model is repeatable on this machine"
            )
        for value, chance in self.thresholds.items():
            if 0 < value < 1 or not self.is_share:  # otherwise no run can miss it
                lines.append(
                    f"  threshold {value:.4g}: this model fails it in "
                    f"{100 * chance:.2g}% of runs"
                )
        return lines


def measure_repeatability(
    task: str,
    key: str,
    runs: Sequence[Mapping[int, object]],
    metric: Metric | None = None,
) -> MetricRepeatability | None:
    """Repeatability of a mean over documents, from two or more runs (position of a
    document → its value). ``None`` if it is not a mean of finite numbers, or no
    document has a value in each run. If the metric is unknown, only a share of correct
    answers is a mean."""
    shared = sorted(set(runs[0]).intersection(*runs[1:]))
    table = [[run[index] for index in shared] for run in runs]
    if not shared or not all(
        isinstance(one, bool) or is_finite(one) for row in table for one in row
    ):
        return None
    numbers = [[float(value) for value in row] for row in table]  # type: ignore[arg-type]
    is_share = all(value in (0, 1) for row in numbers for value in row)
    if not (is_share if metric is None else metric.is_mean):
        return None
    found = repeatability(numbers)
    is_bounded = all(0 <= value <= 1 for row in numbers for value in row)
    by_document = [mean(column) for column in zip(*numbers, strict=True)]
    binomial = math.sqrt(found.mean * (1 - found.mean) / len(shared)) if is_share else 0
    return MetricRepeatability(
        task=task,
        key=key,
        n_runs=len(runs),
        n=len(shared),
        mean=found.mean,
        stderr=found.stderr,
        flip_rate=found.rate,
        sampling=binomial if is_share else mean_stderr(by_document) or 0.0,
        thresholds=_thresholds(
            # The mean of K runs varies too: so much does a further run differ from it.
            found.stderr * math.sqrt(1 + 1 / len(runs)),
            found.mean,
            -1 if metric is not None and metric.higher_is_better is False else 1,
            is_bounded=is_bounded,
        ),
        is_share=is_share,
    )


def _thresholds(
    sd: float, value: float, sign: int, *, is_bounded: bool
) -> dict[float, float]:
    if not sd:
        return {}
    steps = _STEPS if is_bounded else 10.0 ** (1 - math.floor(math.log10(sd)))
    middle = sign * value
    bars = [math.floor(round((middle - k * sd) * steps, 6)) / steps for k in AWAY]
    return {sign * bar: chance_below(bar, middle, sd) for bar in dict.fromkeys(bars)}
