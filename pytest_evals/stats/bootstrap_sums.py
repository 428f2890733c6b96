"""Column sums and category counts of many resamples at once.

Integers are packed next to each other into one 64-bit word, so one look-up and one
addition per draw sum several columns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from pytest_evals.stats.bootstrap import Draws

    Sums = Callable[[Draws], NDArray[np.float64]]
    """Maps (B, n) positions to (B, m) sums of m columns."""

BITS = 63
"""Bits of a word that sums may use: the last one is the sign."""
WORDS = 3
"""Up to this number of words, summing is faster than counting each draw."""


class _Word(NamedTuple):
    """Columns of integers packed into one array.

    Args:
        packed: (n,) int64.
        columns: Indices of the packed columns.
        shifts: Lowest bit of each.
        widths: Bits of each column's largest sum.
    """

    packed: NDArray[np.int64]
    columns: tuple[int, ...]
    shifts: tuple[int, ...]
    widths: tuple[int, ...]


def sums_of(columns: Sequence[ArrayLike]) -> Sums:
    """Return a function that sums each column over each resample.

    Args:
        columns: (m, n): m numbers for each of n values.

    Returns:
        (B, n) positions to (B, m) sums; exact for non-negative integers.
    """
    import numpy as np

    table = np.asarray(columns, dtype=np.float64)
    whole = [i for i, column in enumerate(table) if _is_whole(column)]
    words = list(_packed(table, whole))
    rest = [i for i in range(len(table)) if i not in whole]

    def sums(at: Draws) -> NDArray[np.float64]:
        out = np.empty((at.shape[0], len(table)))
        for word in words:
            total = taken(word.packed, at).sum(axis=1)
            for i, shift, width in zip(*word[1:], strict=True):
                out[:, i] = (total >> shift) & ((1 << width) - 1)
        for i in rest:
            out[:, i] = taken(table[i], at).sum(axis=1)
        return out

    return sums


def _is_whole(column: NDArray[np.float64]) -> bool:
    import numpy as np

    if not np.isfinite(column).all() or column.min() < 0:
        return False
    largest = float(column.max()) * len(column)
    return largest < 2**53 and bool((column == np.floor(column)).all())


def _packed(table: NDArray[np.float64], whole: Sequence[int]) -> Iterator[_Word]:
    """Pack the integer columns into as few words as possible."""
    import numpy as np

    n = table.shape[1]
    widths = {i: max(1, int(table[i].max() * n).bit_length()) for i in whole}
    while widths:
        packed = np.zeros(n, dtype=np.int64)
        columns: list[int] = []
        shifts: list[int] = []
        used = 0
        for i, width in widths.items():
            if used + width <= BITS:
                packed += table[i].astype(np.int64) << used
                columns.append(i)
                shifts.append(used)
                used += width
        own = tuple(widths.pop(i) for i in columns)
        yield _Word(packed, tuple(columns), tuple(shifts), own)


def taken(values: NDArray[Any], at: Draws) -> NDArray[Any]:
    """Return the values at these positions, in an array that this thread's next call
    overwrites: threads that allocate block each other."""
    import numpy as np

    kept = getattr(_SCRATCH, values.dtype.name, None)
    if kept is None or kept.size < at.size:
        kept = np.empty(at.size, dtype=values.dtype)
        setattr(_SCRATCH, values.dtype.name, kept)
    out: NDArray[Any] = kept[: at.size].reshape(at.shape)
    # "clip" skips NumPy's bounds check: draws are always within bounds.
    return values.take(at, mode="clip", out=out)


_SCRATCH = threading.local()


def counts_of(kinds: NDArray[np.int32], n_kinds: int) -> Sums:
    """Return a function from (B, n) positions to (B, n_kinds) counts of each kind in
    each resample."""
    import numpy as np

    per_word = BITS // len(kinds).bit_length()
    if n_kinds <= 1 + WORDS * per_word:
        # One column is omitted: it follows from the others.
        sums = sums_of([kinds == kind for kind in range(n_kinds)][1:] or [kinds])

        def summed(at: Draws) -> NDArray[np.float64]:
            others = sums(at)[:, : n_kinds - 1]
            first = at.shape[1] - others.sum(axis=1, keepdims=True)
            return np.concatenate([first, others], axis=1)

        return summed

    def counted(at: Draws) -> NDArray[np.float64]:
        n_rows = at.shape[0]
        offset = np.arange(n_rows, dtype=np.intp)[:, None] * n_kinds
        flat = (taken(kinds, at) + offset).ravel()
        counts = np.bincount(flat, minlength=n_rows * n_kinds)
        return counts.reshape(n_rows, n_kinds).astype(np.float64)

    return counted
