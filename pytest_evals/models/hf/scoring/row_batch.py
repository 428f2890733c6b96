"""Rows of a batch as tensors on the device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """The rows of a batch, padded on the right; padding attends to itself.

    Args:
        ids: (B, T) int64.
        positions: (B, T) int64.
        ends: (B, T) int64, place after each token's last descendant.
        lengths: (B,) int64, tokens of each row.
        depth: Tokens of the prefix before each row; the least if prefixes differ.
        counts: Number of rows after each prefix, in their order.
        branched: Whether there is a row with several sequences.
        n_positions: One more than the highest position.
    """

    ids: Tensor
    positions: Tensor
    ends: Tensor
    lengths: Tensor
    depth: int
    counts: tuple[int, ...]
    branched: bool
    n_positions: int
