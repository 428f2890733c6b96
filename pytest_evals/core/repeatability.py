"""Run-to-run variability of a task's metrics, and the thresholds that it permits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A possible threshold.

    Args:
        false_alarm: Probability that an unchanged model fails it.
        catches: A true change for the worse, and the probability that it is detected.
    """

    value: float
    false_alarm: float
    catches: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRepeatability:
    """Repeatability of one metric over several runs.

    Args:
        n: Number of documents with a value in each run.
        stderr: Standard deviation of the metric between runs.
        flip_rate: Mean square of a document's change between two runs; for correct and
            wrong answers, the flip rate.
        sampling: Standard error over other documents.
        bars: Thresholds from the tightest to the loosest; none if no answer flipped.
        is_share: Whether documents are correct or wrong.
        is_bounded: Whether all values are between 0 and 1, so that drops are in points.
        is_lower_better: Whether the thresholds are upper limits.
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
