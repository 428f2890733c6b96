"""Cutting work into batches that fit into the device's memory.

A budget of tokens, padding included, bounds each batch. When memory runs out, the
budget is halved and only that batch is tried again; after some batches that fit, it
grows back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import torch

from pytest_evals.models.hf.device_memory import or_none
from pytest_evals.models.hf.tokenization.request_encoder import InvalidRequestError

T = TypeVar("T")
R = TypeVar("R")

CPU_TOKENS = 8192
MOST_TOKENS = 131_072
SMALLEST_PART = 64
"""Tokens of a long sequence that are read at a time, however small the budget is."""
FITTING_BATCHES = 16
"""Batches in a row that must fit before the budget is doubled again."""


class BatchBudget:
    """How many tokens and rows a batch may have; learns from batches that did not
    fit."""

    def __init__(self, tokens: int, rows: int = 0) -> None:
        """``rows`` is an upper bound, 0 for none."""
        self.tokens = tokens
        self._most = tokens
        self._rows = rows
        self._fitting = 0

    def take(self, costs: Sequence[int], start: int) -> int:
        """Number of items from ``start`` that make the next batch, at least one.

        ``costs`` are tokens; in a batch each row is padded to the longest.
        """
        widest = 0
        for end in range(start, len(costs)):
            widest = max(widest, costs[end])
            n = end - start + 1
            if n > 1 and (n * widest > self.tokens or (self._rows and n > self._rows)):
                return n - 1
        return len(costs) - start

    def shrink(self, tokens: int) -> None:
        """A batch of that many tokens did not fit."""
        self.tokens = max(1, tokens // 2)
        self._fitting = 0

    def grow(self) -> None:
        """A batch has fitted."""
        self._fitting += 1
        if self._fitting >= FITTING_BATCHES and self.tokens < self._most:
            self.tokens = min(self._most, self.tokens * 2)
            self._fitting = 0


@dataclass(frozen=True, slots=True)
class Batch(Generic[T, R]):
    """Items that were run together.

    Args:
        items: The items.
        result: What came of them; or why the only item could not be run.
        elapsed_s: Seconds it took.
    """

    items: Sequence[T]
    result: R | InvalidRequestError
    elapsed_s: float


def in_batches(
    items: Sequence[T],
    costs: Sequence[int],
    run: Callable[[Sequence[T]], R],
    budget: BatchBudget,
) -> Iterator[Batch[T, R]]:
    """Run all items in their order, batch by batch, each batch as soon as it is done.

    The longest first is best: batches are evenly filled, and the batch that may not fit
    comes at the start.
    """
    start = 0
    while start < len(items):
        n = budget.take(costs, start)
        batch = items[start : start + n]
        began = time.perf_counter()
        result: R | InvalidRequestError | None = or_none(partial(run, batch))
        if result is None:
            widest = max(costs[start : start + n])
            budget.shrink(n * widest)
            if n > 1:
                continue
            result = InvalidRequestError(
                f"{widest} tokens do not fit into the device's memory"
            )
        else:
            budget.grow()
        yield Batch(batch, result, time.perf_counter() - began)
        start += n


def default_tokens(model: Any, bytes_per_token: int) -> int:
    """A budget that suits the device: half of the memory that is free now.

    Args:
        model: The model, on its device.
        bytes_per_token: What a token of a batch takes while it is computed.
    """
    if model.device.type != "cuda":
        return CPU_TOKENS
    free, _ = torch.cuda.mem_get_info(model.device)
    return int(min(MOST_TOKENS, max(1, free // 2 // bytes_per_token)))
