"""The seeded bootstrap: standard errors of statistics that have no formula.

Numbers in, numbers out; knows no document and no metric. The draws are those of lm-eval
0.4.13 (``lm_eval.api.metrics.bootstrap_stderr``): replicates come in chunks of 1,000,
and chunk *i* resamples with ``random.Random(i).choices``. NumPy's ``RandomState``,
seeded with the array ``[i]``, is that same Mersenne Twister, so that whole blocks of
draws are made and counted at once. Most of the time goes into the draws themselves: a
thousand million of them (10,000 values, 100,000 replicates) at 10 to 14 ns each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pytest_evals.core.metric import BOOTSTRAP_ITERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Draws = NDArray[np.intp]
    """(B, n) positions: each row is one resample of n values."""
    Replicates = NDArray[np.float64]
    """(B,) the statistic of each resample."""
    Statistic = Callable[[Draws], Replicates]

__all__ = ["bootstrap_stderr", "draws"]

CHUNK = 1000
"""Replicates that share a seed."""
BLOCK = 1 << 15
"""Draws that are made at once: their arrays stay in a core's cache."""
SERIAL = 1 << 21
"""Draws in total below which threads cost more than they save."""


def bootstrap_stderr(
    n: int, statistic: Statistic, iterations: int = BOOTSTRAP_ITERS
) -> float | None:
    """Sample standard deviation of a statistic over resamples of ``n`` values.

    Only whole chunks are run: 1,500 iterations are 1,000. Threads share the chunks;
    the result is the same with any number of them.

    Args:
        n: How many values there are.
        statistic: (B, n) positions to (B,) replicates, as the functions of
            :mod:`pytest_evals.stats.resampling` give it. Called from several threads.
        iterations: Number of replicates.

    Returns:
        The standard error; ``None`` for fewer than two values or replicates. NaN when a
        replicate is not finite.
    """
    import numpy as np

    if n < 2 or iterations < 2:
        return None
    size = min(CHUNK, iterations)

    def chunk(seed: int) -> Replicates:
        # The error state belongs to a thread, so it is set in here.
        with np.errstate(all="ignore"):
            return np.concatenate([statistic(block) for block in draws(seed, n, size)])

    replicates = np.concatenate(_each(chunk, iterations // size, n * iterations))
    with np.errstate(all="ignore"):
        return float(np.std(replicates, ddof=1))


def _each(
    chunk: Callable[[int], Replicates], n_chunks: int, n_draws: int
) -> list[Replicates]:
    n_threads = min(os.cpu_count() or 1, n_chunks)
    if n_threads == 1 or n_draws < SERIAL:
        return [chunk(seed) for seed in range(n_chunks)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(chunk, range(n_chunks)))


def draws(seed: int, n: int, size: int) -> Iterator[Draws]:
    """What ``random.Random(seed).choices(range(n), k=n)`` gives, ``size`` times.

    Yields:
        (B, n) positions; the rows of all blocks are the resamples in their order. All
        blocks are one array, written anew: threads that allocate wait for each other.
    """
    import numpy as np

    twister = np.random.MT19937()
    # A list, not an integer nor an array of one: those are seeded by another rule.
    start_state: Any = np.random.RandomState([seed]).get_state(legacy=False)
    twister.state = start_state
    generator = np.random.Generator(twister)
    rows = min(size, max(1, BLOCK // n))
    uniform, at = np.empty((rows, n)), np.empty((rows, n), dtype=np.intp)
    for start in range(0, size, rows):
        block = min(rows, size - start)
        generator.random(out=uniform[:block])
        np.multiply(uniform[:block], n, out=uniform[:block])
        np.copyto(at[:block], uniform[:block], casting="unsafe")
        yield at[:block]
