"""What sequences have in common: all sequences of a window as one tree.

The tree is kept as a sorted list: next to each other are those that share most, and how
many tokens each shares with the one before it says all about the branches. Numpy only;
no token becomes an object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_evals.models.hf.scoring.scored_spans import ScoredSpan
from pytest_evals.models.hf.tokenization.encoder import Ids

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """Different sequences in an order that puts common beginnings together; a sequence
    comes before those that go on from it.

    Args:
        sequences: The N sequences, what the model reads of the lines.
        lines: The positions of each sequence's lines.
        lengths: (N,) tokens of each sequence, at least 1.
        shared: (N,) tokens at its beginning that the sequence before it has too; 0 for
            the first.
        scored_from: (N,) first place of a sequence whose logits any of its lines needs.
    """

    sequences: Sequence[Ids]
    lines: Sequence[tuple[int, ...]]
    lengths: Numbers
    shared: Numbers
    scored_from: Numbers


def trie_of(lines: Sequence[ScoredSpan]) -> Trie:
    """The tree of all lines without their last tokens, which nobody reads."""
    owners: dict[bytes, list[int]] = {}
    for i, line in enumerate(lines):
        owners.setdefault(line.tokens[:-1].tobytes(), []).append(i)
    # Bytes of numbers of equal width sort as well as the numbers: which of two tokens
    # comes first does not matter.
    keys = sorted(owners)
    members = [tuple(owners[key]) for key in keys]
    sequences = [lines[m[0]].tokens[:-1] for m in members]
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    most = np.array([max(lines[i].n_scored for i in m) for m in members], np.int64)
    return Trie(sequences, members, lengths, _shared(sequences), lengths - most)


def _shared(sequences: Sequence[Ids]) -> Numbers:
    """(N,) common tokens of each sequence and the one before it."""
    found = np.zeros(len(sequences), dtype=np.int64)
    for i in range(1, len(sequences)):
        one, other = sequences[i - 1], sequences[i]
        n = min(len(one), len(other))
        differ = one[:n] != other[:n]
        first = int(differ.argmax())
        found[i] = first if differ[first] else n
    return found
