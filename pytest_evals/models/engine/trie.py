"""Prefix tree of all sequences of a window.

Stored as a sorted list: neighbours share most, and the common length with the previous
sequence defines all branches. Uses numpy arrays only.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.spans import ScoredSpan

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """Distinct sequences, sorted so that common prefixes are adjacent; a sequence
    precedes its extensions."""

    sequences: Sequence[Ids]  # The N sequences, what the model reads of the spans
    spans: Sequence[tuple[int, ...]]  # The positions of each sequence's spans
    lengths: Numbers  # (N,) tokens of each sequence, at least 1
    shared: Numbers
    """(N,) tokens at its beginning that the sequence before it has too; 0 for the
    first."""
    scored_from: Numbers
    """(N,) first place of a sequence whose logits any of its spans needs."""

    def shared_with(self, ids: Ids) -> Numbers:
        """(N,) length of the common prefix of each sequence and ``ids``."""
        place = bisect(self.sequences, ids.tobytes(), key=lambda one: one.tobytes())
        near = [*self.sequences[:place][-1:], ids, *self.sequences[place:][:1]]
        own = shared_lengths(near)[min(place, 1) :]
        gaps = np.concatenate([self.shared[:place], own, self.shared[place + 1 :]])
        left = np.minimum.accumulate(gaps[1 : place + 1][::-1])[::-1]
        return np.concatenate([left, np.minimum.accumulate(gaps[place + 1 :])])


def trie_of(spans: Sequence[ScoredSpan]) -> Trie:
    """The tree of all spans' inputs, which exclude their last tokens."""
    owners: dict[bytes, list[int]] = {}
    for i, span in enumerate(spans):
        owners.setdefault(span.tokens[:-1].tobytes(), []).append(i)
    # Bytes of numbers of equal width sort as well as the numbers: which of two tokens
    # comes first does not matter.
    keys = sorted(owners)
    members = [tuple(owners[key]) for key in keys]
    sequences = [spans[m[0]].tokens[:-1] for m in members]
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    most = np.array([max(spans[i].n_scored for i in m) for m in members], np.int64)
    return Trie(sequences, members, lengths, shared_lengths(sequences), lengths - most)


def shared_lengths(sequences: Sequence[Ids]) -> Numbers:
    """(N,) length of the common prefix of each sequence and the previous one."""
    found = np.zeros(len(sequences), dtype=np.int64)
    for i, pair in enumerate(pairwise(sequences), start=1):
        found[i] = common_length(*pair)
    return found


def common_length(one: Ids, other: Ids) -> int:
    """Length of the common prefix of two sequences."""
    n = min(len(one), len(other))
    differ = one[:n] != other[:n]
    return int(differ.argmax()) if differ.any() else n
