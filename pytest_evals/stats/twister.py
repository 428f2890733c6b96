"""Python's own draws, compiled, which takes less time than NumPy does.

The same Mersenne Twister (MT19937, Matsumoto and Nishimura 1998), with what
``random.choices`` makes of it. Needs numba; without it NumPy draws the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Fill = Callable[
        [NDArray[np.uint32], NDArray[np.uint32], int, int, NDArray[np.intp]], int
    ]
    """As :func:`_fill`."""

__all__ = ["Twister", "compiled"]

_N, _M = 624, 397
_HIGH, _LOW, _MATRIX = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), 0x9908B0DF
_A = np.uint32(_MATRIX)
_B, _C = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_0, _1, _5, _6, _7, _11, _15, _18 = (np.uint32(i) for i in (0, 1, 5, 6, 7, 11, 15, 18))


class Twister:
    """One stream of draws."""

    def __init__(self, fill: Fill, state: NDArray[np.uint32]) -> None:
        """Begin as a generator of this fresh state, (624,), does."""
        self._fill = fill
        self._state = state.astype(np.uint32)
        self._words = np.empty(_N, dtype=np.uint32)
        self._used = _N

    def draw(self, n: int, out: NDArray[np.intp]) -> None:
        """Write positions below ``n`` into ``out``, row by row."""
        flat = out.reshape(-1)
        self._used = self._fill(self._state, self._words, self._used, n, flat)


@lru_cache(maxsize=1)
def compiled() -> Fill | None:
    """What makes draws, ready for threads; ``None`` where numba is not installed.

    It is compiled once and kept on the disk, by numba's own rules.
    """
    if find_spec("numba") is None:
        return None
    import numba

    try:
        fill: Any = numba.njit(nogil=True, cache=True)(_fill)
    except RuntimeError:  # no folder can be written to
        fill = numba.njit(nogil=True)(_fill)
    nothing = np.zeros(_N, dtype=np.uint32)
    fill(nothing.copy(), nothing, _N, 1, np.empty(1, dtype=np.intp))
    return fill  # type: ignore[no-any-return]


def _fill(
    state: NDArray[np.uint32],
    words: NDArray[np.uint32],
    used: int,
    n: int,
    out: NDArray[np.intp],
) -> int:
    """Draw positions; written for the compiler, in whole blocks of the generator.

    Args:
        state: (624,) of the generator.
        words: (624,) what it has made last.
        used: How many of these were taken, an even number.
        n: Positions are below.
        out: Where they go.

    Returns:
        How many words were taken then.
    """
    done = 0
    while done < out.size:
        if used == _N:
            for i in range(_N - _M):
                y = (state[i] & _HIGH) | (state[i + 1] & _LOW)
                state[i] = state[i + _M] ^ (y >> _1) ^ ((_0 - (y & _1)) & _A)
            for i in range(_N - _M, 2 * (_N - _M)):
                y = (state[i] & _HIGH) | (state[i + 1] & _LOW)
                state[i] = state[i + _M - _N] ^ (y >> _1) ^ ((_0 - (y & _1)) & _A)
            for i in range(2 * (_N - _M), _N - 1):
                y = (state[i] & _HIGH) | (state[i + 1] & _LOW)
                state[i] = state[i + _M - _N] ^ (y >> _1) ^ ((_0 - (y & _1)) & _A)
            y = (state[_N - 1] & _HIGH) | (state[0] & _LOW)
            state[_N - 1] = state[_M - 1] ^ (y >> _1) ^ ((_0 - (y & _1)) & _A)
            for i in range(_N):
                y = state[i] ^ (state[i] >> _11)
                y ^= (y << _7) & _B
                y ^= (y << _15) & _C
                words[i] = y ^ (y >> _18)
            used = 0
        several = min((_N - used) // 2, out.size - done)
        for i in range(several):
            first, second = words[used + 2 * i] >> _5, words[used + 2 * i + 1] >> _6
            share = (first * 67108864.0 + second) * (1.0 / 9007199254740992.0)
            out[done + i] = int(share * n)
        done += several
        used += 2 * several
    return used
