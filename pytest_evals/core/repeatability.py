"""How much a task's numbers vary from run to run, and which bars that allows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar that might be set.

    Args:
        value: The bar.
        false_alarm: Chance that an unchanged model is beyond it.
        catches: A true change for the worse, and the chance that it is caught.
    """

    value: float
    false_alarm: float
    catches: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRepeatability:
    """What repeated runs say of one metric.

    Args:
        task: Name of the task.
        key: Metric and filter.
        n_runs: Runs.
        n: Documents that have a value in each.
        mean: Of all runs.
        stderr: Standard deviation of a run's number.
        flip_rate: Mean square of a document's change between two runs: of right and
            wrong answers, the share that turns.
        sampling: Standard error over other documents.
        bars: From the tightest to the loosest; none where no answer has turned.
        is_share: Whether documents are right or wrong.
        is_bounded: Whether all values lie between 0 and 1, so that drops are points.
        is_lower_better: Whether the bars are bounds from above.
    """

    task: str
    key: str
    n_runs: int
    n: int
    mean: float
    stderr: float
    flip_rate: float
    sampling: float
    bars: tuple[Bar, ...] = ()
    is_share: bool = True
    is_bounded: bool = True
    is_lower_better: bool = False
