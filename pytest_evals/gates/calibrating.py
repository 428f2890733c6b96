"""From repeated runs to the noise of a metric, and to bars that it allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_evals.core.calibration import Bar, Calibration
from pytest_evals.stats.power import chance_below
from pytest_evals.stats.turning import turning

__all__ = ["calibrate"]

AWAY = (2, 3)
"""Standard deviations below the mean at which bars are proposed."""
DROPS = (0.01, 0.02, 0.03)
_STEP = 1000
"""Bars are rounded down to one of so many in 1."""


def calibrate(
    task: str, key: str, runs: Sequence[Mapping[int, object]]
) -> Calibration | None:
    """What runs of the same documents say of a share of right answers.

    Args:
        task: Name of the task.
        key: Metric and filter.
        runs: Position of a document to its value, for each run; at least two.

    Returns:
        ``None`` if values are not 0 and 1, or no document has one in each run.
    """
    shared = sorted(set(runs[0]).intersection(*runs[1:]))
    table = [[run[index] for index in shared] for run in runs]
    if not shared or not all(value in (0, 1) for row in table for value in row):
        return None
    found = turning([[float(bool(value)) for value in row] for row in table])
    n = len(shared)
    return Calibration(
        task=task,
        key=key,
        n_runs=len(runs),
        n=n,
        mean=found.mean,
        stderr=found.stderr,
        flip_rate=found.rate,
        sampling=math.sqrt(found.mean * (1 - found.mean) / n),
        bars=_bars(found.mean, found.stderr),
    )


def _bars(mean: float, stderr: float) -> tuple[Bar, ...]:
    if not stderr:  # a bar beside a number without noise is no proposal
        return ()
    values = {math.floor(round((mean - k * stderr) * _STEP, 6)) / _STEP for k in AWAY}
    return tuple(
        Bar(
            value=value,
            false_alarm=chance_below(value, mean, stderr),
            catches=tuple((d, chance_below(value, mean - d, stderr)) for d in DROPS),
        )
        for value in sorted(values, reverse=True)
    )
