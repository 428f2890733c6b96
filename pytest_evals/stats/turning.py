"""How much a number varies when a run is repeated on the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Turning", "turning"]


class Turning(NamedTuple):
    """What repeated runs of the same documents have shown.

    Args:
        mean: Of all runs.
        rate: Mean square of a document's change between two runs: of answers that are
            right or wrong, the share that turns.
        stderr: Standard deviation of a run's mean, by that rate.
        spread: Standard deviation of the means of the runs, as they were.
    """

    mean: float
    rate: float
    stderr: float
    spread: float


def turning(values: Sequence[Sequence[float]]) -> Turning:
    """How much runs differ.

    Args:
        values: (k, n) a number of each of n documents in each of k runs, k at least 2.
    """
    table = np.array(values, dtype=float)
    means = table.mean(axis=1)
    # The square of a difference of two draws is twice their variance, on average.
    rate = 2 * float(table.var(axis=0, ddof=1).mean())
    n = table.shape[1]
    return Turning(
        float(means.mean()), rate, (rate / (2 * n)) ** 0.5, float(means.std(ddof=1))
    )
