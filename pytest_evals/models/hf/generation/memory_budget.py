"""Memory budget of generation: how many tokens a batch may hold.

Two limits: tokens held (rows times columns of the KV cache) and tokens of a prefill.
The first is measured: bytes per token from the first rows, free memory before each
admission. Both are lowered when memory runs out and rise again while steps succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from pytest_evals.models.engine.device_memory import (
    SMALLEST_PART,
    free_bytes,
    power_of_two,
)

SHARE = 0.6
"""Fraction of the free memory for keys and values; the rest is for activations and for
resizing the buffers of one layer."""
FIRST_GROWTH = 64  # Initial estimate of new tokens per sequence
GROWTH_INTERVAL = 128  # Successful steps after which the limits rise by a fourth


class MemoryBudget:
    """Adaptive limits of a batch."""

    def __init__(
        self,
        held: int,
        read: int = 0,
        rows: int = 0,
        *,
        pass_cost: int = 1,
        measure: Callable[[int, int], int] | None = None,
    ) -> None:
        """Set the initial limits.

        Args:
            held: Tokens that may be held, padding included.
            read: Tokens that may be read at a time; 0 for as many.
            rows: Rows at most, 0 for no bound.
            pass_cost: Tokens that a further pass must save to be worth its while.
            measure: From the bytes that a token of a row takes, and those that all rows
                hold already, to the tokens for which there is memory.
        """
        self.held = held
        self.read = read or held
        self.growth = FIRST_GROWTH
        self.pass_cost = pass_cost
        self._most_held = held
        self._most_read = self.read
        self._rows = rows
        self._measure = measure
        self._fitting = 0

    def fits(self, n_rows: int, width: int) -> bool:
        """Whether the batch may hold so many rows and columns; one row always may."""
        within = n_rows * width <= self.held and not 0 < self._rows < n_rows
        return within or n_rows <= 1

    def overflows(self, n_rows: int, width: int) -> bool:
        """Whether rows exceed the maximum that may ever be held."""
        return n_rows > 1 and n_rows * width > self._most_held

    @property
    def part(self) -> int:
        """Prefill chunk of one prompt in tokens."""
        return max(self.read, SMALLEST_PART)

    def look(self, bytes_per_token: int, n_bytes: int) -> None:
        """Measure the available memory. ``bytes_per_token``: memory per token of a row;
        0 if unknown. ``n_bytes``: bytes of the current rows."""
        if self._measure is None or not bytes_per_token:
            return
        was_lowered = self.held < self._most_held
        self._most_held = max(1, self._measure(bytes_per_token, n_bytes))
        most = self._most_held
        self.held = min(self.held, most) if was_lowered else most

    def lower(self, held: int) -> None:
        """Lower the limit after ``held`` tokens did not fit."""
        self.held = max(1, min(self.held, held // 2))
        self._fitting = 0

    def lower_read(self, tokens: int) -> None:
        """Lower the prefill limit after ``tokens`` did not fit."""
        self.read = max(1, min(self.read, tokens // 2))
        self._fitting = 0

    def expect_longer(self) -> None:
        """Double the estimated growth after sequences had to be preempted."""
        self.growth *= 2

    def fitted(self) -> None:
        """Record a successful step."""
        self._fitting += 1
        if self._fitting >= GROWTH_INTERVAL:
            self._fitting = 0
            self.held = min(self._most_held, self.held + self.held // 4 + 1)
            self.read = min(self._most_read, self.read + self.read // 4 + 1)


def free_tokens(
    devices: Sequence[torch.device], most: int
) -> Callable[[int, int], int]:
    """Function that measures the free memory of the fullest device in tokens, at most
    ``most`` and rounded to a power of two."""

    def measure(bytes_per_token: int, n_bytes: int) -> int:
        free = free_bytes(devices)
        if free is None:
            return most
        n_tokens = int((free + n_bytes) * SHARE) // bytes_per_token
        return most if n_tokens >= most else power_of_two(n_tokens)

    return measure
