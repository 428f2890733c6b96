"""Run-to-run variability of a task's metrics, and the thresholds that it permits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A possible threshold."""

    value: float
    false_alarm: float  # probability that an unchanged model fails it
    catches: tuple[tuple[float, float], ...]
    """A true change for the worse, and the probability that it is detected."""


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
    bars: tuple[Bar, ...] = ()
    """Thresholds from the tightest to the loosest; none if no answer flipped."""
    is_share: bool = True  # whether documents are correct or wrong
    is_bounded: bool = True
    """Whether all values are between 0 and 1, so that drops are in points."""
    is_lower_better: bool = False  # whether the thresholds are upper limits
