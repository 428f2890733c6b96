"""Multiple testing: p-values adjusted for the family-wise error rate."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values, in the same order (Holm 1979).

    Rejecting those at or below a level keeps the family-wise error rate at that level,
    under any dependence between the tests.
    """
    n = len(p_values)
    adjusted = [0.0] * n
    largest = 0.0
    for rank, i in enumerate(sorted(range(n), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (n - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
