"""Resamples drawn and summed in one loop, compiled by numba.

The same Mersenne Twister (MT19937, Matsumoto and Nishimura 1998) and the same mapping
to positions as Python's ``random.choices``. Positions stay in the L1 cache, which is
several times faster than NumPy's arrays. Imported only if numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Key = NDArray[np.uint32]
    """(624,) state of a fresh generator."""

_F = TypeVar("_F", bound=Callable[..., Any])


def _compiled(function: _F) -> _F:
    """Compile the function on its first call; numba caches the result on disk."""
    fast: Any
    try:
        fast = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder can be written to
        fast = numba.njit(nogil=True)(function)
    return fast  # type: ignore[no-any-return]


_N, _M = 624, 397
DRAWS = _N // 2
"""Number of draws per state."""
_HIGH, _LOW = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)
_A, _B, _C = np.uint32(0x9908B0DF), np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_0, _1, _5, _6, _7, _11, _15, _18 = (np.uint32(i) for i in (0, 1, 5, 6, 7, 11, 15, 18))


def key_of(seed: int) -> Key:
    """Return the state of ``random.Random(seed)``, for a seed below 2**32."""
    # A list, not an integer nor an array of one: those are seeded by another rule.
    state: Any = np.random.RandomState([seed]).get_state(legacy=False)
    key: Key = state["state"]["key"].astype(np.uint32)
    return key


@_compiled
def _tempered(word: np.uint32) -> np.uint32:
    word ^= word >> _11
    word ^= (word << _7) & _B
    word ^= (word << _15) & _C
    return word ^ (word >> _18)


@_compiled
def _twist(low: np.uint32, high: np.uint32, far: np.uint32) -> np.uint32:
    both = (low & _HIGH) | (high & _LOW)
    return far ^ (both >> _1) ^ ((_0 - (both & _1)) & _A)


@_compiled
def _draw(key: Key, at: NDArray[np.int32], n: int) -> None:
    """Write the next 312 positions below ``n``, as ``int(random() * n)``."""
    for i in range(_N - _M):
        key[i] = _twist(key[i], key[i + 1], key[i + _M])
    for i in range(_N - _M, 2 * (_N - _M)):
        key[i] = _twist(key[i], key[i + 1], key[i + _M - _N])
    for i in range(2 * (_N - _M), _N - 1):
        key[i] = _twist(key[i], key[i + 1], key[i + _M - _N])
    key[_N - 1] = _twist(key[_N - 1], key[0], key[_M - 1])
    times = float(n)
    for i in range(DRAWS):
        # Both are below 2**27: as signed numbers they are converted several at once.
        high = np.float64(np.int32(_tempered(key[2 * i]) >> _5))
        low = np.float64(np.int32(_tempered(key[2 * i + 1]) >> _6))
        share = (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)
        at[i] = np.int32(share * times)


@_compiled
def sums(key: Key, table: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the column sums of each resample.

    Args:
        key: State of the generator; advanced in place.
        table: (m, n): m numbers for each of n values.

    Returns:
        (size, m); exact for integers below 2**53.
    """
    m, n = table.shape
    out = np.zeros((size, m))
    at = np.empty(DRAWS, dtype=np.int32)
    used = DRAWS
    for row in range(size):
        left = n
        while left:
            if used == DRAWS:
                _draw(key, at, n)
                used = 0
            end = used + min(DRAWS - used, left)
            fours = end - (end - used) % 4
            for j in range(m):
                # Four sums, since each addition waits for the one before.
                a = b = c = d = 0.0
                for i in range(used, fours, 4):
                    a += table[j, np.uint32(at[i])]
                    b += table[j, np.uint32(at[i + 1])]
                    c += table[j, np.uint32(at[i + 2])]
                    d += table[j, np.uint32(at[i + 3])]
                for i in range(fours, end):
                    a += table[j, np.uint32(at[i])]
                out[row, j] += (a + b) + (c + d)
            left -= end - used
            used = end
    return out


@_compiled
def counts(
    key: Key, kinds: NDArray[np.int32], n_kinds: int, size: int
) -> NDArray[np.int64]:
    """Return the count of each kind in each resample.

    Args:
        key: As in :func:`sums`.
        kinds: (n,) from 0.

    Returns:
        (size, n_kinds).
    """
    out = np.zeros((size, n_kinds), dtype=np.int64)
    at = np.empty(DRAWS, dtype=np.int32)
    used = DRAWS
    for row in range(size):
        left = kinds.size
        while left:
            if used == DRAWS:
                _draw(key, at, kinds.size)
                used = 0
            end = used + min(DRAWS - used, left)
            for i in range(used, end):
                out[row, np.uint32(kinds[np.uint32(at[i])])] += 1
            left -= end - used
            used = end
    return out


@_compiled
def middles(
    key: Key, ranks: NDArray[np.int32], middle: int, size: int
) -> NDArray[np.int64]:
    """Return the order statistic of each resample, by counting ranks.

    Args:
        key: As in :func:`sums`.
        ranks: (n,) a permutation of 0 to n - 1.
        middle: Index of the order statistic, from 0.

    Returns:
        (size,).
    """
    out = np.empty(size, dtype=np.int64)
    seen = np.empty(ranks.size, dtype=np.uint32)
    at = np.empty(DRAWS, dtype=np.int32)
    used = DRAWS
    for row in range(size):
        seen[:] = 0
        left = ranks.size
        while left:
            if used == DRAWS:
                _draw(key, at, ranks.size)
                used = 0
            end = used + min(DRAWS - used, left)
            for i in range(used, end):
                seen[np.uint32(ranks[np.uint32(at[i])])] += 1
            left -= end - used
            used = end
        rank, below = 0, np.int64(seen[0])
        while below <= middle:
            rank += 1
            below += seen[rank]
        out[row] = rank
    return out
