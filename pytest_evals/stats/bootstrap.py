"""The seeded bootstrap: standard errors of statistics that have no formula.

Numbers in, numbers out; knows no document and no metric. The draws are those of lm-eval
0.4.13 (``lm_eval.api.metrics.bootstrap_stderr``): replicates come in chunks of 1,000,
and chunk *i* resamples with ``random.Random(i).choices``. NumPy's ``RandomState``,
seeded with the array ``[i]``, is that same Mersenne Twister, so that whole blocks of
draws are made and counted at once. Most of the time goes into the draws themselves, a
thousand million of them for 10,000 values and 100,000 replicates: where numba is
installed, it makes them (:mod:`pytest_evals.stats.twister`).
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

    from pytest_evals.stats.twister import Fill

__all__ = ["bootstrap_stderr", "draws"]

CHUNK = 1000
"""Replicates that share a seed."""
BLOCK = 1 << 15
"""Draws that are made at once: their arrays stay in a core's cache."""
SERIAL = 1 << 21
"""Draws in total below which threads cost more than they save."""
COMPILED = 1 << 29
"""Draws in total below which the start of a compiler costs more than it saves."""


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
    fill = _compiled(n * iterations)

    def chunk(seed: int) -> Replicates:
        # The error state belongs to a thread, so it is set in here.
        with np.errstate(all="ignore"):
            return np.concatenate([statistic(at) for at in draws(seed, n, size, fill)])

    replicates = np.concatenate(_each(chunk, iterations // size, n * iterations))
    with np.errstate(all="ignore"):
        return float(np.std(replicates, ddof=1))


def _compiled(n_draws: int) -> Fill | None:
    if n_draws < COMPILED:
        return None
    from pytest_evals.stats.twister import compiled

    return compiled()


def _each(
    chunk: Callable[[int], Replicates], n_chunks: int, n_draws: int
) -> list[Replicates]:
    n_threads = min(os.cpu_count() or 1, n_chunks)
    if n_threads == 1 or n_draws < SERIAL:
        return [chunk(seed) for seed in range(n_chunks)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(chunk, range(n_chunks)))


def draws(seed: int, n: int, size: int, fill: Fill | None = None) -> Iterator[Draws]:
    """What ``random.Random(seed).choices(range(n), k=n)`` gives, ``size`` times.

    Args:
        seed: Of the generator.
        n: How many values there are.
        size: How many resamples.
        fill: What draws, compiled; else NumPy does.

    Yields:
        (B, n) positions; the rows of all blocks are the resamples in their order. All
        blocks are one array, written anew: threads that allocate wait for each other.
    """
    import numpy as np

    # A list, not an integer nor an array of one: those are seeded by another rule.
    start: Any = np.random.RandomState([seed]).get_state(legacy=False)
    rows = min(size, max(1, BLOCK // n))
    if fill is None:
        draw = _by_numpy(start, rows * n)
    else:
        from pytest_evals.stats.twister import Twister

        draw = Twister(fill, start["state"]["key"]).draw
    at = np.empty((rows, n), dtype=np.intp)
    for done in range(0, size, rows):
        block = at[: min(rows, size - done)]
        draw(n, block)
        yield block


def _by_numpy(start: Any, most: int) -> Callable[[int, Draws], None]:
    import numpy as np

    twister = np.random.MT19937()
    twister.state = start
    generator = np.random.Generator(twister)
    kept = np.empty(most)

    def draw(n: int, out: Draws) -> None:
        uniform = kept[: out.size].reshape(out.shape)
        generator.random(out=uniform)
        np.multiply(uniform, n, out=uniform)
        np.copyto(out, uniform, casting="unsafe")

    return draw
