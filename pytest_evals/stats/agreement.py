"""Agreement of two raters, and how ratings depend on another number."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

_PERMUTATIONS = 4_000


def kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Cohen's kappa of two raters with quadratic weights (Cohen 1968).

    With two categories it equals Cohen's unweighted kappa (1960). ``None`` if both
    raters give one and the same rating throughout, so that chance alone explains it.

    Args:
        pairs: The ratings of each document; not empty.
    """
    n = len(pairs)
    first = math.fsum(one for one, _ in pairs) / n
    second = math.fsum(one for _, one in pairs) / n
    observed = math.fsum((one - other) ** 2 for one, other in pairs) / n
    expected = (
        math.fsum((one - first) ** 2 + (other - second) ** 2 for one, other in pairs)
        / n
        + (first - second) ** 2
    )
    return 1 - observed / expected if expected > 0 else None


def slope_within(
    groups: Sequence[Hashable], x: Sequence[float], y: Sequence[float]
) -> tuple[float, float] | None:
    """Return the least-squares slope of y on x among members of the same group, and the
    two-sided p-value of no dependence; ``None`` if x does not vary within a group.

    The p-value is that of seeded permutations of x within the groups, which also holds
    for few values and for values of 0 and 1.

    Args:
        groups: (n,) the group of each value.
        x: (n,)
        y: (n,)
    """
    import numpy as np

    rng = np.random.default_rng(0)
    square, product, permuted = 0.0, 0.0, np.zeros(_PERMUTATIONS)
    for group in dict.fromkeys(groups):
        here = [i for i, one in enumerate(groups) if one == group]
        dx, dy = (np.array([one[i] for i in here], dtype=float) for one in (x, y))
        dx, dy = dx - dx.mean(), dy - dy.mean()
        square += float(dx @ dx)
        product += float(dx @ dy)
        permuted += rng.permuted(np.tile(dx, (_PERMUTATIONS, 1)), axis=1) @ dy
    if square <= 1e-12 * len(x):
        return None
    n_extreme = int((np.abs(permuted) >= abs(product) * (1 - 1e-9) - 1e-12).sum())
    return product / square, (1 + n_extreme) / (1 + _PERMUTATIONS)
