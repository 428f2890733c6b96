"""Shared n-gram counts for many pairs of integer sequences at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

_BATCH = 512
"""Pairs per batch: their n-grams fit into the processor's cache."""
_LARGEST = 2**62


class Sequences(NamedTuple):
    """Concatenated sequences.

    Args:
        items: (T,) integers from 0.
        lengths: (N,) length of each sequence; T in total.
    """

    items: Whole
    lengths: Whole


def shared_ngrams(left: Sequences, right: Sequences, orders: int) -> Whole:
    """Count n-grams of each pair and order: those of the left, of the right, and shared
    ones with multiplicity (clipped counts).

    Args:
        left: N sequences.
        right: N sequences.
        orders: The largest n.

    Returns:
        (N, orders, 3)
    """
    n = len(left.lengths)
    found = np.zeros((n, orders, 3), dtype=np.int64)
    for order in range(orders):
        found[:, order, 0] = np.maximum(left.lengths - order, 0)
        found[:, order, 1] = np.maximum(right.lengths - order, 0)
    batches = zip(_batches(left), _batches(right), strict=True)
    for number, (ours, theirs) in enumerate(batches):
        start = number * _BATCH
        for order, shared in enumerate(_shared(ours, theirs, orders)):
            found[start : start + len(shared), order, 2] = shared
    return found


def _batches(sequences: Sequences) -> Iterator[Sequences]:
    ends = np.concatenate(([0], np.cumsum(sequences.lengths)))
    for start in range(0, len(sequences.lengths), _BATCH):
        lengths = sequences.lengths[start : start + _BATCH]
        items = sequences.items[ends[start] : ends[start + len(lengths)]]
        yield Sequences(items, lengths)


def _shared(left: Sequences, right: Sequences, orders: int) -> Iterator[Whole]:
    """Yield the (N,) number of n-grams that each pair shares, one order at a time.

    An n-gram is encoded as an integer key. Keys of one sequence are larger than those
    of the previous sequence, so sorting keeps the order of sequences.
    """
    n = len(left.lengths)
    both = np.concatenate((left.items, right.items))
    known, dense = np.unique(both, return_inverse=True)
    base, cut = len(known), len(left.items)
    sides = [(left, dense[:cut]), (right, dense[cut:])]
    starts = [_starts(lengths) for (_, lengths), _ in sides]
    keys = [np.repeat(np.arange(n), lengths) for (_, lengths), _ in sides]
    largest = n
    for order in range(1, orders + 1):
        if largest > _LARGEST // max(base, 1):
            ranks = np.unique(np.concatenate(keys), return_inverse=True)[1]
            keys = [ranks[: len(keys[0])], ranks[len(keys[0]) :]]
            largest = len(ranks)
        largest *= base
        counted = []
        for side, ((_, lengths), items) in enumerate(sides):
            left_over, at = starts[side]
            # Positions from which an n-gram of this length fits; keys has those of the
            # order before.
            fits = left_over >= order
            keys[side] = keys[side][fits] * base + items[at[fits] + order - 1]
            starts[side] = _Starts(left_over[fits], at[fits])
            owners = np.repeat(np.arange(n), np.maximum(lengths - order + 1, 0))
            counted.append(_counted(keys[side], owners))
        yield _met(counted[0], counted[1], n)


class _Starts(NamedTuple):
    """Positions, and the number of items from each to the end of its sequence."""

    left_over: Whole
    at: Whole


def _starts(lengths: Whole) -> _Starts:
    at = np.arange(int(lengths.sum()))
    return _Starts(np.repeat(np.cumsum(lengths), lengths) - at, at)


class _Counted(NamedTuple):
    """Distinct keys in order, their counts, and the sequence of each."""

    keys: Whole
    counts: Whole
    owners: Whole


def _counted(keys: Whole, owners: Whole) -> _Counted:
    """Count keys; ``owners`` are sorted, and so are the keys' owners after sorting."""
    ordered = np.sort(keys)
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    counts = np.diff(first, append=len(ordered))
    return _Counted(ordered[first], counts, owners[first])


def _met(left: _Counted, right: _Counted, n: int) -> Whole:
    if not len(right.keys):
        return np.zeros(n, dtype=np.int64)
    at = np.minimum(np.searchsorted(right.keys, left.keys), len(right.keys) - 1)
    met = right.keys[at] == left.keys
    least = np.minimum(left.counts[met], right.counts[at[met]])
    shared = np.bincount(left.owners[met], weights=least, minlength=n)
    return shared.astype(np.int64)
