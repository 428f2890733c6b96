"""Packing: sequences are grouped by the prefix whose keys and values are cached, and
several of a group are in one row, without padding between them.

A row contains sequences one after the other, each without the prefix it shares with the
previous one. From left to right this is a depth-first walk of a tree: the descendants
of a token follow it without a gap, so the end of its descendants defines which tokens
attend to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pytest_evals.models.hf.scoring.padded_strategy import SpanTargets
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.spans import Numbers, ScoredSpan, Trie

Positions = TypeVar("Positions", int, Tensor)
Kinds = Mapping[str, int]  # Layer type → positions of its window or chunk, 0 for all
WINDOWS = {"sliding_attention": "sliding_window"}
CHUNKS = {"chunked_attention": "attention_chunk_size"}
REACHES = {"full_attention": "", "indexed_attention": "", **WINDOWS, **CHUNKS}
UNTOLD = re.compile("(?<!keep_)window_(size|len)")
"""Config names of a window that the model applies on its own, by columns and regardless
of the mask (transformers, ``GPTNeoSelfAttention``). Self-tests do not detect it:
sequences beyond the window are too expensive for them."""


def kinds_of(config: Any) -> Kinds | None:
    """The layer types in a model's config; ``None`` if one of them is not supported."""
    inner = getattr(config, "text_config", None) or config
    if any(UNTOLD.search(name) and n for name, n in vars(inner).items()):
        return None
    named = getattr(inner, "layer_types", None)
    if not named:
        window = getattr(inner, "sliding_window", None)
        if window and getattr(inner, "use_sliding_window", True):
            return {"sliding_attention": int(window)}
        return {"full_attention": 0}
    kinds: dict[str, int] = {}
    for kind in dict.fromkeys(named):
        if kind not in REACHES:
            return None
        reach = int(getattr(inner, REACHES[kind], None) or 0)
        if REACHES[kind] and not reach:
            return None
        kinds[kind] = reach
    return kinds


def masks(
    kinds: Kinds, ends: Tensor, positions: Tensor, depth: int, dtype: torch.dtype
) -> Tensor | dict[str, Tensor]:
    """One mask if all layers have the same type, else one for each type. Masks are
    additive and have the model's dtype: models with custom attention would silently add
    a boolean mask as numbers. Windows and chunks are measured in positions, not in
    columns.

    Args:
        ends: (B, T) int, place after the last descendant of each token.
        positions: (B, T) int, position of each token in its sequence.
        depth: Tokens of the prefix before the rows, which each token sees.

    Returns:
        (B, 1, T, depth + T) each.
    """
    n_rows, width = ends.shape
    places = torch.arange(width, device=ends.device)
    hidden = (places[:, None] >= ends[:, None, :]) | (places > places[:, None])
    prefix = torch.arange(depth, device=ends.device).expand(n_rows, depth)
    keys = torch.cat([prefix, positions], dim=1)
    built: dict[str, Tensor] = {}
    for kind, reach in kinds.items():
        mask = torch.zeros(
            (n_rows, width, depth + width), dtype=dtype, device=ends.device
        )
        least = torch.finfo(dtype).min
        mask[..., depth:].masked_fill_(hidden, least)
        if reach:
            first = first_visible(kind, reach, positions)
            # Compared as a whole: a difference of positions would take 8 bytes a cell.
            mask.masked_fill_(keys[:, None, :] < first[:, :, None], least)
        built[kind] = mask[:, None]
    return built if len(built) > 1 else next(iter(built.values()))


def first_visible(kind: str, reach: int, positions: Positions) -> Positions:
    """First position that a token at each position attends to; may be negative."""
    if not reach:
        return positions * 0
    if kind in WINDOWS:
        return positions - (reach - 1)
    return positions // reach * reach


def kind_of_layer(config: Any, kinds: Kinds, layer: int) -> str:
    """The type of a layer, one of those of :func:`kinds_of`."""
    if len(kinds) == 1:
        return next(iter(kinds))
    inner = getattr(config, "text_config", None) or config
    return str(inner.layer_types[layer])


SHORT = 32
"""A prefix shorter than this fraction of a row is recomputed in each row: a further
group would cost more, since batches contain rows of one group only."""
OUTSIDERS = 8
"""Fraction of sequences that may be excluded from a group so that the others share
more: those that score tokens of the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """Row size on a device."""

    width: int  # Tokens of a row that does not need more; 0 for one sequence a row
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
    those with the longest part of the ``cached`` prefix (P,), which the others replace.

    The prefix of a group is computed once and cached while the group's rows run. Rows
    of other groups recompute it, so a prefix is cached only if that saves more than an
    extra forward pass costs. One that is cached already is used without computing it.
    """
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
    place = len(scored_from) // OUTSIDERS
    return int(np.partition(scored_from, place)[place])


Int32s = npt.NDArray[np.int32]
FULL_ENOUGH = 0.5
"""Fill level from which a row may end early, at the place with the least
recomputation."""


class PackedRow(NamedTuple):
    """Sequences that are packed together."""

    depth: int  # Tokens that come before the row
    members: Numbers  # Ascending positions of the sequences in the trie, at least one
    starts: Numbers  # (M,) for each its first token that the one before it has not
    n_tokens: int  # Tokens of the row


class RowLayout(NamedTuple):
    """A packed row, token by token."""

    ids: Int32s  # (T,) token ids
    positions: Int32s  # (T,) position of each in its own sequence
    ends: Int32s  # (T,) place after its last descendant; itself is its first
    spots: list[SpanTargets]  # Targets of its spans, as places in the row


def pack(trie: Trie, group: PrefixGroup, width: int) -> list[PackedRow]:
    """Pack the sequences of a group into rows, in order.

    A row has at most ``width`` tokens; a longer one is extended while further sequences
    add at most a quarter of ``width`` to its first.
    """
    starts = _starts(trie, group)
    lengths = trie.lengths[group.members]
    n_own = (lengths - starts).tolist()
    shared, ends = starts.tolist(), lengths.tolist()
    rows = []
    first = 0
    while first < len(n_own):
        totals = [ends[first] - group.depth]
        for n in n_own[first + 1 :]:
            total = totals[-1] + n
            if total > width and total - totals[0] > width // 4:
                break
            totals.append(total)
        stop = first + len(totals)
        if stop < len(n_own):
            stop = _best_stop(totals, shared, first)
        begun = starts[first:stop].copy()
        begun[0] = group.depth
        members = group.members[first:stop]
        rows.append(PackedRow(group.depth, members, begun, totals[stop - first - 1]))
        first = stop
    return rows


def lay_out(trie: Trie, spans: Sequence[ScoredSpan], row: PackedRow) -> RowLayout:
    """The tokens of a row."""
    ids = np.empty(row.n_tokens, dtype=np.int32)
    positions = np.empty(row.n_tokens, dtype=np.int32)
    spots: list[SpanTargets] = []
    begins: list[int] = []
    # By depth, the place of each token of the sequence that is being laid out.
    places = np.zeros(int(trie.lengths[row.members].max()), dtype=np.int64)
    place = 0
    for member, start in zip(row.members.tolist(), row.starts.tolist(), strict=True):
        sequence = trie.sequences[member]
        stop = len(sequence)
        end = place + stop - start
        ids[place:end] = sequence[start:]
        positions[place:end] = np.arange(start, stop)
        places[start:stop] = np.arange(place, end)
        for i in trie.spans[member]:
            n = spans[i].n_scored
            found = places[stop - n : stop].copy()
            spots.append(SpanTargets(i, found, spans[i].tokens[-n:]))
        begins.append(place)
        place = end
    return RowLayout(ids, positions, _ends(positions, begins), spots)


def _starts(trie: Trie, group: PrefixGroup) -> Numbers:
    """(M,) length of the prefix each member shares with the previous one; the group's
    depth for the first."""
    members = group.members
    starts = np.full(len(members), group.depth, dtype=np.int64)
    if len(members) > 1:
        gaps = trie.shared[: members[-1] + 1]
        starts[1:] = np.minimum.reduceat(gaps, members[:-1] + 1)
    return starts


def _best_stop(totals: Sequence[int], shared: Sequence[int], first: int) -> int:
    """End of a full row with the least recomputation in the next row, which starts with
    all of its first sequence."""
    enough = FULL_ENOUGH * totals[-1]
    stops = [first + n for n, t in enumerate(totals, start=1) if t >= enough]
    return min(stops, key=lambda stop: (shared[stop], -stop))


def _ends(positions: Int32s, begins: Sequence[int]) -> Int32s:
    """(T,) for each token the place of the next token at the same or a smaller depth
    that starts a branch."""
    ends = np.empty(len(positions), dtype=np.int32)
    # By depth, where the descendants of a token end; from right to left.
    known = np.full(int(positions.max()) + 1, len(positions), dtype=np.int32)
    stop = len(positions)
    for begin in reversed(begins):
        start = int(positions[begin])
        ends[begin:stop] = known[start : start + stop - begin]
        known[start:] = begin
        stop = begin
    return ends


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """The rows of a batch, padded on the right; padding attends to itself."""

    ids: Tensor  # (B, T) int64
    positions: Tensor  # (B, T) int64
    ends: Tensor  # (B, T) int64, place after each token's last descendant
    lengths: Tensor  # (B,) int64, tokens of each row
    depth: int  # Tokens of the prefix before each row; the least if prefixes differ
    counts: tuple[int, ...]  # Number of rows after each prefix, in their order
    branched: bool  # Whether there is a row with several sequences
    n_positions: int  # One more than the highest position
