"""Metrics of Humanity's Last Exam (Phan et al. 2025, arXiv 2501.14249): accuracy,
half-width of its confidence interval, and calibration error.

The calibration error follows the authors' script: root mean square over bins of 100
answers sorted by confidence. lighteval (0.13.0) omits the last bin, and mixes percent
with fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.scorers.aggregations import Aggregation, from_function
from pytest_evals.scorers.custom_metrics.metric import CorpusLevelComputation

BIN = 100
"""Minimum number of answers per bin."""


def calibration_error(confidence: Sequence[float], correct: Sequence[float]) -> float:
    """Return the root mean square, over bins, of mean confidence minus accuracy; both
    are between 0 and 1."""
    pairs = sorted(zip(confidence, correct, strict=True))
    n_bins = max(1, len(pairs) // BIN)
    total = 0.0
    for i in range(n_bins):
        end = (i + 1) * BIN if i + 1 < n_bins else len(pairs)
        part = pairs[i * BIN : end]
        total += len(part) / len(pairs) * _distance(part) ** 2
    return float(total**0.5)


def calib_err(
    confidence: Sequence[float],
    correct: Sequence[float],
    p: str = "2",
    beta: int = BIN,
) -> float:
    """Return lighteval's calibration error; -1 with fewer answers than one bin.

    Args:
        confidence: Confidence, on the scale of ``correct``.
        correct: 1 or 0 per answer.
        p: Norm over bins: ``1``, ``2`` or ``infty``.
        beta: Answers per bin.
    """
    import numpy as np

    pairs = list(zip(confidence, correct, strict=True))
    if len(pairs) < beta:
        return -1
    # NumPy's sort order assigns ties to bins.
    pairs = [pairs[i] for i in np.argsort(np.array(confidence))]
    total = 0.0
    for i in range(len(pairs) // beta - 1):
        part = pairs[i * beta : (i + 1) * beta]
        share, distance = len(part) / len(pairs), _distance(part)
        if p == "2":
            total += share * distance**2
        elif p == "1":
            total += share * distance
        else:
            total = max(total, distance)
    return float(total**0.5 if p == "2" else total)


def _distance(part: Sequence[tuple[float, float]]) -> float:
    n = len(part)
    return abs(sum(c for c, _ in part) / n - sum(right for _, right in part) / n)


@dataclass(frozen=True)
class CorpusLevelHLE(CorpusLevelComputation):
    """A metric of Humanity's Last Exam, from pairs of correctness and confidence in
    percent.

    Args:
        name: ``accuracy``, ``confidence_half_width`` or ``calibration_error``.
    """

    name: str

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """Compute the metric, in percent with two decimals."""
        correct = [float(item[0]) for item in items]
        share = sum(correct) / len(correct)
        if self.name == "accuracy":
            return round(100 * share, 2)
        if self.name == "calibration_error":
            sure = [float(item[1]) / 100 for item in items]
            return round(100 * calibration_error(sure, correct), 2)
        half: float = 1.96 * (share * (1 - share) / len(correct)) ** 0.5
        return round(100 * half, 2)

    def aggregation(self) -> Aggregation:
        """Return the aggregation, with a bootstrapped standard error."""
        return from_function(self.compute_corpus)
