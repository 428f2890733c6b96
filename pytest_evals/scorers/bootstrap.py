"""Seeded bootstrap: standard errors of statistics without a formula.

The draws are those of lm-eval 0.4.13 (``lm_eval.api.metrics.bootstrap_stderr``):
replicates come in chunks of 1,000, and chunk *i* resamples with
``random.Random(i).choices``. NumPy's ``RandomState``, seeded with the array ``[i]``, is
the same Mersenne Twister, so draws are generated and counted in blocks. 10,000 values
and 100,000 replicates need 10**9 draws: if numba is installed, a compiled loop
generates and counts them several times faster
(:mod:`pytest_evals.scorers.mersenne_twister`).

A statistic is a function from (B, n) counts of each of n values in B resamples to (B,)
replicates. Values that contribute alike are of one kind, and only kinds are counted
(:class:`OfKinds`): F1 has three, accuracies have two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pytest_evals.core.metric import BOOTSTRAP_ITERS
from pytest_evals.scorers.agreement import f1_totals, matthews_totals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Counts = NDArray[np.float64]
    """(B, n) how often each of n values is in a resample."""
    Replicates = NDArray[np.float64]
    """(B,) the statistic of each resample."""
    Statistic = Callable[[Counts], Replicates]


@dataclass(frozen=True, slots=True)
class OfKinds:
    """A statistic that depends only on how many values of each kind are drawn."""

    kinds: NDArray[np.intp]  # (n,) the kind of each value, from 0
    n_kinds: int  # number of kinds, K
    of_counts: Callable[[Counts], Replicates]  # maps (B, K) counts to (B,) replicates

    def __call__(self, counts: Counts) -> Replicates:
        """Return the replicates for (B, n) counts."""
        import numpy as np

        b = len(counts)
        at = (np.arange(b)[:, None] * self.n_kinds + self.kinds).ravel()
        length = b * self.n_kinds
        found: Any = np.bincount(at, weights=counts.ravel(), minlength=length)
        return self.of_counts(found.reshape(b, self.n_kinds))


CHUNK = 1000  # replicates that share a seed
BLOCK = 1 << 15  # draws per block: their arrays fit into a core's cache
SERIAL = 1 << 21  # below this total number of draws, threads cost more than they save
COMPILED = 1 << 28
"""Below this total number of draws, compilation costs more than it saves."""


def bootstrap_stderr(
    n: int, statistic: Statistic, iterations: int = BOOTSTRAP_ITERS
) -> float | None:
    """Return the sample standard deviation of a statistic over resamples of ``n``
    values.

    Only whole chunks are run: 1,500 iterations are 1,000. Threads share the chunks; the
    result does not depend on the number of threads.

    ``statistic``: called from several threads.

    Returns:
        The standard error; ``None`` for fewer than two values or replicates. NaN if a
        replicate is not finite.
    """
    import numpy as np

    if n < 2 or iterations < 2:
        return None
    size = min(CHUNK, iterations)
    n_draws = n * iterations
    compiled = n_draws >= COMPILED and find_spec("numba") is not None
    kinds, n_kinds, number = np.arange(n), n, statistic
    if isinstance(statistic, OfKinds):
        kinds, n_kinds = statistic.kinds, statistic.n_kinds
        number = statistic.of_counts

    def chunk(seed: int) -> Replicates:
        # The error state is per thread, so it is set here.
        with np.errstate(all="ignore"):
            blocks = resamples(seed, kinds, n_kinds, size, compiled=compiled)
            return np.concatenate([number(counts) for counts in blocks])

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


def resamples(
    seed: int,
    kinds: NDArray[np.intp],
    n_kinds: int,
    size: int,
    *,
    compiled: bool = False,
) -> Iterator[Counts]:
    """Count the draws of ``random.Random(seed).choices(kinds, k=n)``, ``size`` times.
    ``kinds``: (n,) the kind of each value, from 0. ``compiled``: whether to draw in a
    compiled loop; needs numba.

    Yields:
        (B, n_kinds); the rows of all blocks are the resamples in order. All blocks
        share one array, which is overwritten: threads that allocate block each other.
    """
    import numpy as np

    # A list, not an integer nor an array of one: those are seeded by another rule.
    state: Any = np.random.RandomState([seed]).get_state(legacy=False)
    # Compiled draws stay in the cache anyway: only the counts must fit.
    rows = min(size, max(1, BLOCK // (n_kinds if compiled else len(kinds))))
    kept = np.empty((rows, n_kinds))
    count = (
        _in_loops(state, kinds) if compiled else _by_numpy(state, kinds, n_kinds, rows)
    )
    for done in range(0, size, rows):
        block = kept[: size - done]
        count(block)
        yield block


def _in_loops(state: Any, kinds: NDArray[np.intp]) -> Callable[[Counts], None]:
    from pytest_evals.scorers.mersenne_twister import Draws, count

    draws, small = Draws(state["state"]["key"]), kinds.astype("int32")
    return lambda block: count(draws.key, draws.at, draws.used, small, block)


def _by_numpy(
    state: Any, kinds: NDArray[np.intp], n_kinds: int, rows: int
) -> Callable[[Counts], None]:
    import numpy as np

    twister = np.random.MT19937()
    twister.state = state
    generator, n = np.random.Generator(twister), len(kinds)
    starts = np.arange(rows)[:, None] * n_kinds
    uniform, at = np.empty((rows, n)), np.empty((rows, n), dtype=np.intp)

    def count(block: Counts) -> None:
        b = len(block)
        generator.random(out=uniform[:b])
        np.multiply(uniform[:b], n, out=uniform[:b])
        np.copyto(at[:b], uniform[:b], casting="unsafe")
        found = kinds[at[:b]]
        found += starts[:b]
        length = b * n_kinds
        block[:] = np.bincount(found.ravel(), minlength=length).reshape(b, n_kinds)

    return count


def resampled_scores(
    columns: Sequence[ArrayLike], score: Callable[[list[float]], float]
) -> Statistic:
    """Return a function of the columns' sums as a resampled statistic. ``columns``: (m,
    n): m numbers for each of n values. ``score``: maps the m sums of a resample to its
    statistic."""
    import numpy as np

    return _of_sums(
        columns, lambda sums: np.array([score(row) for row in sums.tolist()])
    )


def _of_sums(
    columns: Sequence[ArrayLike], number: Callable[[NDArray[np.float64]], Replicates]
) -> OfKinds:
    """Return a function of sums; values with equal columns are of one kind.
    ``columns``: (m, n): m numbers for each of n values. ``number``: maps (B, m) sums to
    (B,) replicates."""
    import numpy as np

    table = np.asarray(columns, dtype=np.float64).T
    rows, kinds = np.unique(table, axis=0, return_inverse=True)
    return OfKinds(kinds.ravel(), len(rows), lambda counts: number(counts @ rows))


def resampled_perplexity(values: Sequence[float]) -> Statistic:
    """Return ``exp(-mean)`` of log-probabilities in nats as a resampled statistic."""
    import numpy as np

    n = len(values)
    return _of_sums([values], lambda sums: np.exp(-sums[:, 0] / n))


def resampled_median(values: Sequence[float]) -> Statistic:
    """Return the upper median as a resampled statistic."""
    import numpy as np

    middle = len(values) // 2
    in_order, kinds = np.unique(
        np.asarray(values, dtype=np.float64), return_inverse=True, equal_nan=False
    )

    def median(counts: Counts) -> Replicates:
        below = np.cumsum(counts, axis=1)
        found: Replicates = in_order[(below <= middle).sum(axis=1)]
        return found

    return OfKinds(kinds, len(in_order), median)


def resampled_nanmean(values: Sequence[float]) -> Statistic:
    """Return the mean of the values that are not NaN; NaN if missing."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    present = ~np.isnan(array)

    def mean(sums: NDArray[np.float64]) -> Replicates:
        n, total = sums.T
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)

    return _of_sums([present, np.where(present, array, 0.0)], mean)


def resampled_f1(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Statistic:
    """Return the binary F1 of label 1 as a resampled statistic."""
    import numpy as np

    def f1(sums: NDArray[np.float64]) -> Replicates:
        hits, misses = sums.T
        either = 2 * hits + misses
        return np.where(either > 0, 2 * hits / np.maximum(either, 1), 0.0)

    return _of_sums(f1_totals((golds, predictions)).columns, f1)


def resampled_matthews(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Statistic:
    """Return the Matthews correlation coefficient as a resampled statistic."""
    import numpy as np

    n = len(golds)

    def matthews(sums: NDArray[np.float64]) -> Replicates:
        right, predicted = np.split(sums[:, 1:], 2, axis=1)  # (B, L) each
        both = sums[:, 0] * n - (right * predicted).sum(axis=1)
        spread = (n * n - (right**2).sum(axis=1)) * (n * n - (predicted**2).sum(axis=1))
        safe = np.where(spread > 0, spread, 1.0)
        return np.where(spread > 0, both / np.sqrt(safe), 0.0)

    return _of_sums(matthews_totals((golds, predictions)).columns, matthews)
