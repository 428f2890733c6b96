"""The memory budget of generations, and how it adapts."""

from __future__ import annotations

import torch

from pytest_evals.models.engine.device_memory import free_bytes, or_none
from pytest_evals.models.hf.generation.kv_cache import (
    GROWTH_INTERVAL,
    MemoryBudget,
    free_tokens,
)


def test_one_row_may_always_be_tried():
    room = MemoryBudget(10, rows=3)
    assert room.fits(1, 99)
    assert room.fits(2, 5)
    assert not room.fits(2, 6)
    assert not room.fits(4, 1)


def test_the_budget_follows_the_size_of_a_token_and_free_memory():
    """Of 1000 bytes, 400 in use, for tokens of 10 bytes."""
    room = MemoryBudget(
        7, measure=lambda per_token, n_bytes: (600 + n_bytes) // per_token
    )
    room.look(0, 0)
    assert not room.fits(2, 4)
    room.look(10, 400)
    assert room.fits(2, 50)
    assert not room.fits(2, 51)


def test_sequences_that_did_not_fit_are_not_retried_at_once():
    room = MemoryBudget(100, measure=lambda per_token, n_bytes: 100)
    room.look(1, 0)
    room.lower(100)
    room.look(1, 0)
    assert room.held == 50
    for _ in range(5 * GROWTH_INTERVAL):
        room.fitted()
    assert room.held == 100


def test_rows_overflow_the_total_memory_and_not_a_temporary_limit():
    room = MemoryBudget(100)
    room.lower(100)
    assert not room.overflows(2, 50)
    assert room.overflows(2, 51)
    assert not room.overflows(1, 1000)


def test_the_memory_of_the_host_is_known_and_is_no_more_than_it_has():
    """Linux reports it; on other systems there is no source."""
    device = torch.device("cpu")
    free = free_bytes([device])
    measure = free_tokens([device], most=100)
    assert measure(1, 0) == 100
    if free is not None:
        assert 0 < free < 2**50
        assert measure(2**50, 0) == 0


def test_only_a_lack_of_memory_gives_nothing():
    def short():
        raise torch.OutOfMemoryError("CUDA out of memory")

    assert or_none(short) is None
    assert or_none(lambda: 5) == 5
