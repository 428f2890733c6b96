"""The noise of a metric by repeated runs, and thresholds that it allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_evals.core.metric import Metric
from pytest_evals.core.repeatability import Bar, MetricRepeatability
from pytest_evals.stats.averages import mean, mean_stderr
from pytest_evals.stats.power import chance_below
from pytest_evals.stats.repeatability import Repeatability, repeatability

AWAY = (2, 3)
"""Standard deviations beyond the mean at which bars are proposed."""
DROPS = (0.01, 0.02, 0.03)
FURTHER = (2, 4, 6)
"""Standard deviations of drops, where values do not lie between 0 and 1."""
_STEPS = 1000
"""Bars on shares are rounded to one of so many in 1; others to as many digits as a
tenth of the standard deviation has."""


def measure_repeatability(
    task: str,
    key: str,
    runs: Sequence[Mapping[int, object]],
    metric: Metric | None = None,
) -> MetricRepeatability | None:
    """What runs of the same documents say of a mean over documents.

    Args:
        task: Name of the task.
        key: Metric and filter.
        runs: Position of a document to its value, for each run; at least two.
        metric: The metric; ``None`` if nobody knows it, and then only a share of right
            answers is a mean.

    Returns:
        ``None`` if it is no mean of finite numbers, or no document has a value in each
        run.
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
    found = repeatability(numbers)
    is_bounded = all(0 <= value <= 1 for value in values)
    is_lower_better = metric is not None and metric.higher_is_better is False
    sign = -1 if is_lower_better else 1
    return MetricRepeatability(
        task=task,
        key=key,
        n_runs=len(runs),
        n=len(shared),
        mean=found.mean,
        stderr=found.stderr,
        flip_rate=found.rate,
        sampling=_sampling(numbers, found.mean, is_share=is_share),
        bars=_bars(found, len(runs), sign, is_bounded=is_bounded),
        is_share=is_share,
        is_bounded=is_bounded,
        is_lower_better=is_lower_better,
    )


def _number(value: object) -> float | None:
    """A finite number, or none."""
    known = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def _sampling(
    runs: Sequence[Sequence[float]], value: float, *, is_share: bool
) -> float:
    """Standard error over other documents."""
    n = len(runs[0])
    if is_share:
        return math.sqrt(value * (1 - value) / n)
    return mean_stderr([mean(column) for column in zip(*runs, strict=True)]) or 0.0


def _bars(
    found: Repeatability, n_runs: int, sign: int, *, is_bounded: bool
) -> tuple[Bar, ...]:
    """Thresholds below the mean, or above it if ``sign`` is -1.

    The mean of K runs varies too: the difference of a further run from it has the
    standard deviation sd * sqrt(1 + 1/K).
    """
    if not found.stderr:  # without noise, any threshold would do
        return ()
    middle, sd = sign * found.mean, found.stderr * math.sqrt(1 + 1 / n_runs)
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
