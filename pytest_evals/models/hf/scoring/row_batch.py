"""Rows of a batch as tensors on the device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
