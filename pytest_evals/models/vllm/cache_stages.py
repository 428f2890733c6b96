"""Stages in which sequences share their prefixes through vLLM's prefix cache.

Sequences of one engine step do not see each other's blocks. A shared prefix is
therefore computed by one sequence in an earlier stage, and the others follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pytest_evals.models.engine.trie import shared_lengths
from pytest_evals.models.prefix_order import prefix_order
from pytest_evals.models.tokens.encoder import Ids

SHARED_BLOCKS = 2
"""Minimum length of a shared prefix that justifies a stage, in blocks."""


def stages(sequences: Sequence[Ids], block: int, capacity: int) -> Iterator[list[int]]:
    """Positions of the sequences in stages, each of which is to be finished before the
    next one begins.

    Args:
        sequences: (T,) ids each.
        block: Tokens of a block of the cache.
        capacity: Tokens that the cache holds. Sequences whose stages do not fit
            together are run one after the other.
    """
    order = prefix_order([ids.tobytes() for ids in sequences])
    lengths = [len(sequences[i]) for i in order]
    shared = shared_lengths([sequences[i] for i in order]).tolist()
    start = n_tokens = 0
    for end, length in enumerate(lengths):
        if end > start and n_tokens + length - shared[end] > capacity:
            yield from _stages(order, lengths, shared, block, range(start, end))
            start, n_tokens, shared[end] = end, 0, 0
        n_tokens += length - shared[end]
    yield from _stages(order, lengths, shared, block, range(start, len(order)))


def _stages(
    order: Sequence[int],
    lengths: Sequence[int],
    shared: Sequence[int],
    block: int,
    places: range,
) -> Iterator[list[int]]:
    blocks = [(lengths[i] // block, shared[i] // block) for i in places]
    found = sorted(zip(stage_numbers(blocks), places, strict=True))
    for _, members in groupby(found, key=lambda pair: pair[0]):
        yield [order[place] for _, place in members]


def stage_numbers(blocks: Sequence[tuple[int, int]]) -> list[int]:
    """The stage of each sequence: one more than that of the sequence which computes its
    prefix first, 0 without a shared prefix. ``blocks``: sequences in prefix order:
    blocks of each, and blocks at its beginning that the previous one has too."""
    numbers: list[int] = []
    path: list[tuple[int, int]] = []  # (blocks, stage that computes them first)
    for length, common in blocks:
        while path and path[-1][0] > common:
            _, number = path.pop()
            if common and (not path or path[-1][0] < common):
                path.append((common, number))
        number = path[-1][1] + 1 if path and common >= SHARED_BLOCKS else 0
        numbers.append(number)
        if length > common:
            path.append((length, number))
    return numbers
