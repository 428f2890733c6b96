"""How many tokens a batch of texts may hold while they are written.

Two bounds: tokens that are held, which is keys and values of rows times columns, and
tokens that are read at a time. The first is measured: what a token takes is known from
the first rows, and what is free is asked each time before rows are let in. Both are
lowered when memory runs out, and rise again while it does not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from pytest_evals.models.hf.batches import SMALLEST_PART
from pytest_evals.models.hf.device_memory import free_bytes

MOST_TOKENS = 2**19
"""Tokens that are held at most: with more rows no device is faster."""
SHARE = 0.6
"""Of the free memory that keys and values may fill; the rest is for what is computed,
and for one layer's buffers that are moved to larger ones."""
FIRST_GROWTH = 64
"""New tokens that a row is expected to write while there is no better knowledge."""
GROWTH_INTERVAL = 128
"""Steps in a row that must fit before bounds rise by a fourth."""


class MemoryBudget:
    """Bounds of a batch, which learn from what did not fit."""

    def __init__(
        self,
        held: int,
        read: int = 0,
        rows: int = 0,
        *,
        pass_cost: int = 1,
        measure: Callable[[int, int], int] | None = None,
    ) -> None:
        """Bounds to begin with.

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
        """Whether so many rows of so many columns may be held. One may always try."""
        within = n_rows * width <= self.held and not 0 < self._rows < n_rows
        return within or n_rows <= 1

    def overflows(self, n_rows: int, width: int) -> bool:
        """Whether rows have grown beyond what may ever be held."""
        return n_rows > 1 and n_rows * width > self._most_held

    @property
    def part(self) -> int:
        """Tokens of one prompt that may be read at a time."""
        return max(self.read, SMALLEST_PART)

    def look(self, bytes_per_token: int, n_bytes: int) -> None:
        """Look how much memory there is now.

        Args:
            bytes_per_token: What a token of a row takes; 0 for unknown.
            n_bytes: What the rows hold already.
        """
        if self._measure is None or not bytes_per_token:
            return
        was_lowered = self.held < self._most_held
        self._most_held = max(1, self._measure(bytes_per_token, n_bytes))
        most = self._most_held
        self.held = min(self.held, most) if was_lowered else most

    def lower(self, held: int) -> None:
        """So many tokens could not be held."""
        self.held = max(1, min(self.held, held // 2))
        self._fitting = 0

    def lower_read(self, tokens: int) -> None:
        """So many tokens could not be read at a time."""
        self.read = max(1, min(self.read, tokens // 2))
        self._fitting = 0

    def expect_longer(self) -> None:
        """Rows have been let in that had to go again, for all grew longer than was
        expected."""
        self.growth *= 2

    def fitted(self) -> None:
        """A step has fitted."""
        self._fitting += 1
        if self._fitting >= GROWTH_INTERVAL:
            self._fitting = 0
            self.held = min(self._most_held, self.held + self.held // 4 + 1)
            self.read = min(self._most_read, self.read + self.read // 4 + 1)


def free_tokens(
    device: torch.device, most: int = MOST_TOKENS
) -> Callable[[int, int], int]:
    """How a room on this device is measured, up to so many tokens."""

    def measure(bytes_per_token: int, n_bytes: int) -> int:
        free = free_bytes(device)
        if free is None:
            return most
        return min(most, int((free + n_bytes) * SHARE) // bytes_per_token)

    return measure
