"""Seeded bootstrap: standard errors of statistics without a formula.

The draws are those of lm-eval 0.4.13 (``lm_eval.api.metrics.bootstrap_stderr``):
replicates come in chunks of 1,000, and chunk *i* resamples with
``random.Random(i).choices``. NumPy's ``RandomState``, seeded with the array ``[i]``, is
the same Mersenne Twister, so draws are generated and counted in blocks. 10,000 values
and 100,000 replicates need 10**9 draws: if numba is installed, compiled loops generate
and count them several times faster (:mod:`pytest_evals.stats.mersenne_twister`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_evals.core.metric import BOOTSTRAP_ITERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Draws = NDArray[np.intp]
    """(B, n) positions: each row is one resample of n values."""
    Replicates = NDArray[np.float64]
    """(B,) the statistic of each resample."""
    Statistic = Callable[[Draws], Replicates]

CHUNK = 1000
"""Replicates that share a seed."""
BLOCK = 1 << 15
"""Draws per block: their arrays fit into a core's cache."""
SERIAL = 1 << 21
"""Below this total number of draws, threads cost more than they save."""
COMPILED = 1 << 28
"""Below this total number of draws, compilation costs more than it saves."""


@runtime_checkable
class Compiled(Protocol):
    """A statistic that also supports draws in compiled loops."""

    def __call__(self, at: Draws, /) -> Replicates:
        """Return the replicates for drawn positions."""
        ...

    def drawn(self, seed: int, size: int) -> Replicates:
        """Return the replicates for the positions of :func:`draws`; needs numba."""
        ...


def bootstrap_stderr(
    n: int, statistic: Statistic, iterations: int = BOOTSTRAP_ITERS
) -> float | None:
    """Return the sample standard deviation of a statistic over resamples of ``n``
    values.

    Only whole chunks are run: 1,500 iterations are 1,000. Threads share the chunks; the
    result does not depend on the number of threads.

    Args:
        statistic: Maps (B, n) positions to (B,) replicates, as returned by
            :mod:`pytest_evals.stats.resampling`. Called from several threads.

    Returns:
        The standard error; ``None`` for fewer than two values or replicates. NaN if a
        replicate is not finite.
    """
    import numpy as np

    if n < 2 or iterations < 2:
        return None
    size = min(CHUNK, iterations)
    n_draws = n * iterations
    by_loops = n_draws >= COMPILED and find_spec("numba") is not None

    def chunk(seed: int) -> Replicates:
        # The error state is per thread, so it is set here.
        with np.errstate(all="ignore"):
            if by_loops and isinstance(statistic, Compiled):
                return statistic.drawn(seed, size)
            return np.concatenate([statistic(at) for at in draws(seed, n, size)])

    replicates = np.concatenate(_each(chunk, iterations // size, n_draws))
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
    """Generate ``random.Random(seed).choices(range(n), k=n)``, ``size`` times.

    Yields:
        (B, n) positions; the rows of all blocks are the resamples in order. All blocks
        share one array, which is overwritten: threads that allocate block each other.
    """
    import numpy as np

    rows = min(size, max(1, BLOCK // n))
    twister = np.random.MT19937()
    # A list, not an integer nor an array of one: those are seeded by another rule.
    state: Any = np.random.RandomState([seed]).get_state(legacy=False)
    twister.state = state
    generator = np.random.Generator(twister)
    at = np.empty((rows, n), dtype=np.intp)
    kept = np.empty((rows, n))
    for done in range(0, size, rows):
        several = min(rows, size - done)
        uniform = kept[:several]
        generator.random(out=uniform)
        np.multiply(uniform, n, out=uniform)
        np.copyto(at[:several], uniform, casting="unsafe")
        yield at[:several]
