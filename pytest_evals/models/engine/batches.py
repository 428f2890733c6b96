"""Batching within the device's memory.

Each batch is limited to a number of tokens, padding included. If memory runs out, the
limit is halved and the batch is retried; after some successful batches it grows again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from pytest_evals.models.engine.device_memory import devices_of, free_bytes, or_none
from pytest_evals.models.tokens.request_encoder import InvalidRequestError

T = TypeVar("T")
R = TypeVar("R")

CPU_TOKENS = 8192
MOST_TOKENS = 131_072
SMALLEST_PART = 64  # Minimum prefill chunk of a long sequence in tokens
FITTING_BATCHES = 16  # Consecutive successful batches after which the limit is doubled


class BatchBudget:
    """Maximum of tokens and rows of a batch; adapts to out-of-memory errors."""

    def __init__(self, tokens: int, rows: int = 0) -> None:
        """``rows`` is the maximum of rows, 0 for no limit."""
        self.tokens = tokens
        self._most = tokens
        self._rows = rows
        self._fitting = 0

    def take(self, costs: Sequence[int], start: int) -> int:
        """Number of items from ``start`` in the next batch, at least one.

        ``costs`` are tokens; each row is padded to the longest one.
        """
        widest = 0
        for end in range(start, len(costs)):
            widest = max(widest, costs[end])
            n = end - start + 1
            if n > 1 and (n * widest > self.tokens or (self._rows and n > self._rows)):
                return n - 1
        return len(costs) - start

    def shrink(self, tokens: int) -> None:
        """Halve the limit after a batch of ``tokens`` did not fit."""
        self.tokens = max(1, tokens // 2)
        self._fitting = 0

    def grow(self) -> None:
        """Record a successful batch."""
        self._fitting += 1
        if self._fitting >= FITTING_BATCHES and self.tokens < self._most:
            self.tokens = min(self._most, self.tokens * 2)
            self._fitting = 0


@dataclass(frozen=True, slots=True)
class Batch(Generic[T, R]):
    """Items that ran together."""

    items: Sequence[T]
    result: R | InvalidRequestError  # Their result, or the error of a single item
    elapsed_s: float  # Seconds it took


def in_batches(
    items: Sequence[T],
    costs: Sequence[int],
    run: Callable[[Sequence[T]], R],
    budget: BatchBudget,
) -> Iterator[Batch[T, R]]:
    """Run all items in order; yields each batch as it finishes.

    Sort items by length, the longest first: batches are evenly filled, and a batch that
    does not fit is detected early.
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
    """Default token limit: half of the free memory of the fullest device.
    ``bytes_per_token``: memory per token during a forward pass."""
    free = None if model.device.type == "cpu" else free_bytes(devices_of(model))
    if free is None:
        return CPU_TOKENS
    return min(MOST_TOKENS, max(1, power_of_two(free // 2 // bytes_per_token)))


def power_of_two(n: int) -> int:
    """The largest power of two up to ``n``, 0 for 0. Budgets are rounded to it: results
    in half precision depend on the batches, which should not change with every megabyte
    that another process uses."""
    return 1 << n.bit_length() >> 1
