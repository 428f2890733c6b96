"""Additive masks of packed rows: the positions that they mask, and their memory."""

from __future__ import annotations

import pytest
import torch

from pytest_evals.models.hf.scoring.packing import masks
from tests.models.live_memory import LiveMemory

KINDS = {"full_attention": 0, "sliding_attention": 5, "chunked_attention": 4}


def test_a_token_sees_its_ancestors_within_its_window_or_chunk():
    """A tree after a prefix of 3 tokens, given by parents."""
    parents = [-1, 0, 1, 0, 3, 4, -1]
    positions = [3, 4, 5, 4, 5, 6, 3]
    ends = [6, 3, 3, 6, 6, 6, 7]
    found = masks(
        KINDS, torch.tensor([ends]), torch.tensor([positions]), 3, torch.float32
    )
    for query, position in enumerate(positions):
        line = {query}
        while parents[min(line)] >= 0:
            line.add(parents[min(line)])
        where = [0, 1, 2, *positions]
        seen = {0, 1, 2} | {one + 3 for one in line}
        expected = {
            "full_attention": seen,
            "sliding_attention": {key for key in seen if position - where[key] < 5},
            "chunked_attention": {k for k in seen if where[k] // 4 == position // 4},
        }
        for kind, keys in expected.items():
            row = found[kind][0, 0, query]
            assert set(torch.nonzero(row == 0)[:, 0].tolist()) == keys
            assert (row[row != 0] == torch.finfo(torch.float32).min).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_takes_its_own_size_and_two_bytes_a_cell_while_it_is_built(kind):
    ends = torch.arange(1, 257).expand(4, 256)
    positions = torch.arange(1000, 1256).expand(4, 256)
    with LiveMemory() as memory:
        mask = masks({kind: KINDS[kind]}, ends, positions, 1000, torch.bfloat16)
    assert memory.peak <= mask.nbytes + 2 * mask.numel() + 100_000
