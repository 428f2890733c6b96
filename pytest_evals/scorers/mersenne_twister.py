"""Resamples drawn and counted in one loop, compiled by numba.

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
    Counts = NDArray[np.float64]

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
DRAWS = _N // 2  # number of draws per state
_HIGH, _LOW = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)
_A, _B, _C = np.uint32(0x9908B0DF), np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_0, _1, _5, _6, _7, _11, _15, _18 = (np.uint32(i) for i in (0, 1, 5, 6, 7, 11, 15, 18))


class Draws:
    """The draws of a generator with this (624,) state, which :func:`count` counts."""

    def __init__(self, key: NDArray[Any]) -> None:
        self.key: Key = key.astype(np.uint32)
        self.at = np.empty(DRAWS, dtype=np.int32)
        self.used = np.full(1, DRAWS)


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
def count(
    key: Key,
    at: NDArray[np.int32],
    used: NDArray[np.int64],
    kinds: NDArray[np.int32],
    counts: Counts,
) -> None:
    """Count the kinds of the next draws.

    Args:
        key: State of the generator; advanced in place, as the next two are.
        at: Its last positions.
        used: How many of them were counted.
        kinds: (n,) the kind of each value, from 0.
        counts: (B, K) the counts of K kinds in each of B resamples; overwritten.
    """
    counts[:] = 0.0
    n = kinds.size
    for row in range(len(counts)):
        left = n
        while left:
            if used[0] == DRAWS:
                _draw(key, at, n)
                used[0] = 0
            end = used[0] + min(DRAWS - used[0], left)
            for i in range(used[0], end):
                counts[row, np.uint32(kinds[np.uint32(at[i])])] += 1.0
            left -= end - used[0]
            used[0] = end
