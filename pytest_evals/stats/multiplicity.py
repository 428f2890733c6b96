"""Many tests at once: how small a p-value must be to be hardly so by chance."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the same order (Holm 1979).

    Rejecting those that are not above a level rejects a single true hypothesis at most
    that often, however the tests depend on each other.
    """
    n = len(p_values)
    adjusted = [0.0] * n
    largest = 0.0
    for rank, i in enumerate(sorted(range(n), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (n - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
