"""Which beginnings are worth keeping: sequences in groups under a common prefix.

The keys and values of a group's prefix are computed once and kept while the group's
rows run; everything beyond it goes into rows, where a beginning that several of the
row's sequences share is read once. A row of another group reads it again, so a prefix
is kept where that saves more than a further pass through the model costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pytest_evals.models.hf.scoring.trie import Numbers, Trie

SHORT = 32
"""A prefix shorter than one in so many of a row's tokens is read again in each row:
another group would cost more, since rows of different groups share no batch."""
OUTSIDERS = 8
"""One in so many sequences may be left out of a group so that the others share more:
those that score tokens of the prefix themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """How rows are made on a device.

    Args:
        width: Tokens of a row, where sequences do not want more; 0 for one sequence a
            row.
        gain: Tokens whose reading costs as much as a further pass.
        multiple: What rows are padded to a multiple of.
    """

    width: int
    gain: int
    multiple: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class PrefixGroup:
    """Sequences that go on from one kept prefix and score no token of it.

    Args:
        depth: Tokens of the prefix; 0 for none.
        members: Ascending positions of the sequences in the trie, at least one.
    """

    depth: int
    members: Numbers


@dataclass(slots=True, eq=False)
class _Open:
    """A group that is still being filled; the outermost has no home."""

    depth: int
    home: _Open | None
    found: list[Numbers] = field(default_factory=list)


def groups_of(trie: Trie, shape: RowShape) -> list[PrefixGroup]:
    """All sequences in groups, each inner group right after the one around it."""
    outermost = _Open(0, None)
    opened = [outermost]
    costs = np.concatenate([[0], np.cumsum(trie.lengths - trie.shared)])
    todo = [(0, len(trie.sequences), outermost)]
    while todo:
        start, stop, home = todo.pop()
        common = _common(trie, start, stop)
        n_own = int(trie.lengths[start] - common + costs[stop] - costs[start + 1])
        n_rows = _n_rows(stop - start, n_own, common - home.depth, shape.width)
        if n_rows < 2:
            _place(trie, np.arange(start, stop), home)
            continue
        depth = min(common, _unscored(trie.scored_from[start:stop]))
        gained = (n_rows - 1) * (depth - home.depth)
        if gained >= shape.gain and (depth - home.depth) * SHORT >= shape.width:
            home = _Open(depth, home)
            opened.append(home)
        cuts = np.flatnonzero(trie.shared[start + 1 : stop] == common) + start + 1
        edges = [start, *cuts.tolist(), stop]
        todo.extend((a, b, home) for a, b in reversed(list(pairwise(edges))))
    return [_closed(one) for one in opened if one.found]


def _place(trie: Trie, members: Numbers, home: _Open) -> None:
    """Put sequences into the innermost group none of whose prefix they score."""
    fits = trie.scored_from[members] >= home.depth
    if fits.any():
        home.found.append(members[fits])
    if home.home is not None and not fits.all():
        _place(trie, members[~fits], home.home)


def _closed(one: _Open) -> PrefixGroup:
    return PrefixGroup(one.depth, np.sort(np.concatenate(one.found)))


def _common(trie: Trie, start: int, stop: int) -> int:
    """Tokens that all of these neighbours have in common."""
    if stop - start == 1:
        return int(trie.lengths[start])
    return int(trie.shared[start + 1 : stop].min())


def _n_rows(n: int, n_own: int, n_again: int, width: int) -> int:
    """About how many rows ``n`` sequences take that have ``n_own`` tokens beyond
    ``n_again`` which each row reads."""
    if not width:
        return n
    room = max(width - n_again, width // 4, 1)
    return -(-n_own // room)


def _unscored(scored_from: Numbers) -> int:
    """Tokens that most of the sequences do not score."""
    place = len(scored_from) // OUTSIDERS
    return int(np.partition(scored_from, place)[place])
