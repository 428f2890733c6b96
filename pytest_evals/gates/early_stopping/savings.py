"""How much early stopping would save, by the scores of another run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_evals.gates.early_stopping.steps import Steps
from pytest_evals.stats.sequential import Urn

__all__ = ["PAYS", "USUAL_FLIPS", "expected_share"]

PAYS = 0.85
"""Share of the documents above which early stopping is not worth its waves."""
USUAL_FLIPS = 0.05
"""Share of answers that turn between two runs, where nothing is known of it."""
ORDERS = 100
"""Random orders that are tried."""
_SEED = 20240229


def expected_share(
    gates: Sequence[tuple[Steps, Sequence[float] | None]], wave: int, error: float
) -> float | None:
    """The share of documents that are read until all gates are decided, if the model is
    about what it was.

    Args:
        gates: Steps of each gate, and what each document added in another run.
        wave: Documents between two looks.
        error: Of each gate.

    Returns:
        The mean over random orders; ``None`` where no other run is known.
    """
    rng = np.random.default_rng(_SEED)
    shares = []
    for steps, old in gates:
        if old is None:
            return None
        values = np.array(old, dtype=float)
        share = [_share(values, steps, wave, error, rng) for _ in range(ORDERS)]
        shares.append(float(np.mean(share)))
    return max(shares, default=None)


def _share(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    steps: Steps,
    wave: int,
    error: float,
    rng: np.random.Generator,
) -> float:
    """The share that is read in one order, in which some answers have turned."""
    n = len(values)
    old = rng.permutation(values)
    new = np.where(rng.random(n) < USUAL_FLIPS, rng.permutation(old), old)
    each = error / max(1, len(steps.cuts))
    urns = [
        Urn(n, cut.target, error=each, old=old, strict=cut.strict) for cut in steps.cuts
    ]
    for start in range(0, n, wave):
        part = new[start : start + wave]
        answers = [urn.read(part) for urn in urns]
        if all(answer is not None for answer in answers):
            return min(n, start + wave) / n
    return 1.0
