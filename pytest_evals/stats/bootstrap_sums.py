"""What many resamples at once add up to: sums of columns, and how often what was drawn.

What can be counted is counted: whole numbers are packed next to each other into one
64-bit word, so that one look-up and one sum a draw add up several of them.
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
    """(B, n) positions to (B, m) sums of m columns."""

BITS = 63
"""Bits of a word that sums may use: the last one is the sign."""
WORDS = 3
"""Words that cost less to add up than counting each draw does."""


class _Word(NamedTuple):
    """Columns of whole numbers in one array.

    Args:
        packed: (n,) int64.
        columns: Which columns these are.
        shifts: Lowest bit of each.
        widths: Bits of each one's largest sum.
    """

    packed: NDArray[np.int64]
    columns: tuple[int, ...]
    shifts: tuple[int, ...]
    widths: tuple[int, ...]


def sums_of(columns: Sequence[ArrayLike]) -> Sums:
    """The sum of each column over each resample.

    Args:
        columns: (m, n): m numbers of each of n values.

    Returns:
        (B, n) positions to (B, m) sums; exact for whole numbers from 0.
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
    """The whole columns, as many in a word as fit."""
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
    """The values at these positions, in an array that this thread's next call writes
    anew: threads that allocate wait for each other."""
    import numpy as np

    kept = getattr(_SCRATCH, values.dtype.name, None)
    if kept is None or kept.size < at.size:
        kept = np.empty(at.size, dtype=values.dtype)
        setattr(_SCRATCH, values.dtype.name, kept)
    out: NDArray[Any] = kept[: at.size].reshape(at.shape)
    # "clip" spares NumPy the check of bounds, which draws never leave.
    return values.take(at, mode="clip", out=out)


_SCRATCH = threading.local()


def counts_of(kinds: NDArray[np.int32], n_kinds: int) -> Sums:
    """(B, n) positions to (B, n_kinds): how often each resample has each kind."""
    import numpy as np

    per_word = BITS // len(kinds).bit_length()
    if n_kinds <= 1 + WORDS * per_word:
        # One column is left out, since the others tell what it is.
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
