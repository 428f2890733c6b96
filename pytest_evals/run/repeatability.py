"""Run-to-run variability of a metric, and the thresholds that it permits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_evals.core.finite import is_finite
from pytest_evals.core.metric import Metric
from pytest_evals.core.repeatability import Bar, MetricRepeatability
from pytest_evals.stats.averages import mean, mean_stderr
from pytest_evals.stats.power import chance_below
from pytest_evals.stats.repeatability import Repeatability, repeatability

AWAY = (2, 3)
"""Standard deviations from the mean to the proposed thresholds."""
DROPS = (0.01, 0.02, 0.03)
FURTHER = (2, 4, 6)
"""Drops in standard deviations, for values that are not between 0 and 1."""
_STEPS = 1000
"""Thresholds of shares are rounded to multiples of 1 / this; others to a tenth of the
standard deviation."""


def measure_repeatability(
    task: str,
    key: str,
    runs: Sequence[Mapping[int, object]],
    metric: Metric | None = None,
) -> MetricRepeatability | None:
    """Repeatability of a mean over documents, from runs on the same documents.

    Args:
        runs: Position of a document to its value, for each run; at least two.
        metric: The metric; ``None`` if unknown, and then only a share of correct
            answers is a mean.

    Returns:
        ``None`` if it is not a mean of finite numbers, or no document has a value in
        each run.
    """
    shared = sorted(set(runs[0]).intersection(*runs[1:]))
    table = [[_number(run[index]) for index in shared] for run in runs]
    values = [value for row in table for value in row if value is not None]
    if not shared or len(values) < len(shared) * len(runs):
        return None
    is_share = all(value in (0, 1) for value in values)
    if not (is_share if metric is None else metric.is_mean):
        return None
    numbers = [[float(value or 0.0) for value in row] for row in table]
    result = repeatability(numbers)
    is_bounded = all(0 <= value <= 1 for value in values)
    is_lower_better = metric is not None and metric.higher_is_better is False
    sign = -1 if is_lower_better else 1
    return MetricRepeatability(
        task=task,
        key=key,
        n_runs=len(runs),
        n=len(shared),
        mean=result.mean,
        stderr=result.stderr,
        flip_rate=result.rate,
        sampling=_sampling(numbers, result.mean, is_share=is_share),
        bars=_bars(result, len(runs), sign, is_bounded=is_bounded),
        is_share=is_share,
        is_bounded=is_bounded,
        is_lower_better=is_lower_better,
    )


def _number(value: object) -> float | None:
    """A finite number, or ``None``."""
    if isinstance(value, bool) or is_finite(value):
        return float(value)
    return None


def _sampling(
    runs: Sequence[Sequence[float]], value: float, *, is_share: bool
) -> float:
    """Standard error over other documents."""
    n = len(runs[0])
    if is_share:
        return math.sqrt(value * (1 - value) / n)
    return mean_stderr([mean(column) for column in zip(*runs, strict=True)]) or 0.0


def _bars(
    repeatability: Repeatability, n_runs: int, sign: int, *, is_bounded: bool
) -> tuple[Bar, ...]:
    """Thresholds below the mean, or above it if ``sign`` is -1.

    The mean of K runs varies too: the difference of a further run from it has the
    standard deviation sd * sqrt(1 + 1/K).
    """
    if not repeatability.stderr:  # without variation, all thresholds are equivalent
        return ()
    middle, sd = (
        sign * repeatability.mean,
        repeatability.stderr * math.sqrt(1 + 1 / n_runs),
    )
    steps = _STEPS if is_bounded else 10.0 ** (1 - math.floor(math.log10(sd)))
    values = {math.floor(round((middle - k * sd) * steps, 6)) / steps for k in AWAY}
    drops = DROPS if is_bounded else tuple(k * sd for k in FURTHER)
    return tuple(
        Bar(
            value=sign * value,
            false_alarm=chance_below(value, middle, sd),
            catches=tuple((d, chance_below(value, middle - d, sd)) for d in drops),
        )
        for value in sorted(values, reverse=True)
    )
