"""Selection of shared prefixes: sequences are grouped by the prefix whose keys and
values are cached.

The prefix of a group is computed once and cached while the group's rows run; everything
after it is part of the rows, where prefixes shared within a row are computed once. Rows
of other groups recompute it, so a prefix is cached only if that saves more than an
extra forward pass costs. A prefix that is cached already is used without computing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pytest_evals.models.engine.trie import Numbers, Trie
from pytest_evals.models.tokens.encoder import Ids

SHORT = 32
"""A prefix shorter than this fraction of a row is recomputed in each row: a further
group would cost more, since batches contain rows of one group only."""
OUTSIDERS = 8
"""Fraction of sequences that may be excluded from a group so that the others share
more: those that score tokens of the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """Row size on a device."""

    width: int
    """Tokens of a row, where sequences do not want more; 0 for one sequence a row."""
    gain: int  # Tokens whose reading costs as much as a further pass
    multiple: int = 1  # Row lengths are padded to a multiple of this


@dataclass(frozen=True, slots=True, eq=False)
class PrefixGroup:
    """Sequences that continue one cached prefix and score none of its tokens."""

    depth: int  # Tokens of the prefix; 0 for none
    members: Numbers  # Ascending positions of the sequences in the trie, at least one


@dataclass(slots=True, eq=False)
class _Open:
    """A group under construction; the outermost has no parent."""

    depth: int
    home: _Open | None
    found: list[Numbers] = field(default_factory=list)


def groups_of(trie: Trie, shape: RowShape, cached: Ids) -> list[PrefixGroup]:
    """All sequences in groups, inner groups right after the one around them, but first
    those with the longest part of the ``cached`` prefix, which the others replace.
    ``cached``: (P,) ids of the cached prefix."""
    known = trie.shared_with(cached)
    outermost = _Open(0, None)
    opened = [outermost]
    costs = np.concatenate([[0], np.cumsum(trie.lengths - trie.shared)])
    todo = [(0, len(trie.sequences), outermost)]
    while todo:
        start, stop, home = todo.pop()
        common = _common(trie, start, stop)
        n_own = int(trie.lengths[start] - common + costs[stop] - costs[start + 1])
        deepest = min(common, _unscored(trie.scored_from[start:stop]))
        depth = min(deepest, int(known[start]))
        n_rows = _n_rows(stop - start, n_own, common - home.depth, shape.width)
        # Rows of all sequences after a cached prefix need no further pass.
        gain = shape.gain if stop - start < len(trie.sequences) else 1
        reused = max(1, n_rows) * (depth - home.depth)
        if reused >= gain and _is_long(depth, home, shape):
            home = _Open(depth, home)
            opened.append(home)
            n_rows = _n_rows(stop - start, n_own, common - home.depth, shape.width)
        may_reuse = int(known[start:stop].max()) - home.depth >= shape.gain
        if stop - start == 1 or (n_rows < 2 and not may_reuse):
            _place(trie, np.arange(start, stop), home)
            continue
        gained = (n_rows - 1) * (deepest - home.depth)
        if gained >= shape.gain and _is_long(deepest, home, shape):
            home = _Open(deepest, home)
            opened.append(home)
        cuts = np.flatnonzero(trie.shared[start + 1 : stop] == common) + start + 1
        edges = [start, *cuts.tolist(), stop]
        todo.extend((a, b, home) for a, b in reversed(list(pairwise(edges))))
    groups = [
        PrefixGroup(one.depth, np.sort(np.concatenate(one.found)))
        for one in opened
        if one.found
    ]
    return sorted(groups, key=lambda one: -min(one.depth, known[one.members[0]]))


def _is_long(depth: int, home: _Open, shape: RowShape) -> bool:
    """Whether a prefix is long enough to save time in each row."""
    return (depth - home.depth) * SHORT >= shape.width


def _place(trie: Trie, members: Numbers, home: _Open) -> None:
    """Add sequences to the innermost group of whose prefix they score no token."""
    fits = trie.scored_from[members] >= home.depth
    if fits.any():
        home.found.append(members[fits])
    if home.home is not None and not fits.all():
        _place(trie, members[~fits], home.home)


def _common(trie: Trie, start: int, stop: int) -> int:
    """Length of the common prefix of these neighbours."""
    if stop - start == 1:
        return int(trie.lengths[start])
    return int(trie.shared[start + 1 : stop].min())


def _n_rows(n: int, n_own: int, n_again: int, width: int) -> int:
    """Estimated number of rows for ``n`` sequences with ``n_own`` tokens beyond the
    ``n_again`` that each row recomputes."""
    if not width:
        return n
    room = max(width - n_again, width // 4, 1)
    return -(-n_own // room)


def _unscored(scored_from: Numbers) -> int:
    """Length of the prefix that most of the sequences do not score."""
    place = len(scored_from) // OUTSIDERS
    return int(np.partition(scored_from, place)[place])
