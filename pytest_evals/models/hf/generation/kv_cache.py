"""KV cache of a running batch whose rows join, grow and leave, and its memory budget.

All rows end at the same column: padding is on the left, and a new token uses one column
for all rows. Buffers have spare columns, and rows that leave free their place for
others, so neither appending a token nor removing a row copies the rest. When the
longest row leaves, its extra columns become invisible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from pytest_evals.models.engine.device_memory import (
    SMALLEST_PART,
    free_bytes,
    power_of_two,
)

SPARE_COLUMNS = 64  # Spare columns of a new buffer; or a fourth of its width


class _Layer(DynamicLayer):  # type: ignore[no-untyped-call]  # its base is half typed
    """One layer: the used rows and columns of two buffers (R, heads, C, size).

    The used columns are ``end - width`` to ``end``, plus ``n_new`` that a running
    forward pass has added.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.is_initialized = True
        self.buffers: tuple[Tensor, Tensor] | None = None
        self.n_rows = 0
        self.width = 0
        self.end = 0
        self.n_new = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append columns; the interface of transformers' caches."""
        start = self.end + self.n_new
        self.n_new += key_states.shape[-2]
        columns = slice(start, self.end + self.n_new)
        keys, values = self._held()
        keys[: self.n_rows, :, columns] = key_states
        values[: self.n_rows, :, columns] = value_states
        return self._seen(keys), self._seen(values)

    def get_seq_length(self) -> int:
        """Number of used columns."""
        return self.width + self.n_new

    def reserve(self, like: tuple[Tensor, Tensor], n_rows: int, width: int) -> None:
        """Ensure capacity for ``n_rows`` rows of ``width`` and a spare column; keeps
        the contents."""
        if self.buffers is not None:
            rows, _, columns, _ = self.buffers[0].shape
            if n_rows <= rows and width <= self.end < columns:
                return
        self.remake(like, n_rows, width)

    def remake(self, like: tuple[Tensor, Tensor], n_rows: int, width: int) -> None:
        columns = width + max(SPARE_COLUMNS, width // 4)
        made = []
        for which, one in enumerate(like):
            new = one.new_empty((n_rows, one.shape[1], columns, one.shape[3]))
            if self.width:
                old = self._seen(self._held()[which])
                new[: self.n_rows, :, width - self.width : width] = old
            made.append(new)
        self.buffers = (made[0], made[1])
        self.end = width

    def pad(self, width: int) -> None:
        """Widen the used columns to the left with zeros: stale values may be NaN, which
        no mask hides."""
        for buffer in self._held():
            buffer[: self.n_rows, :, self.end - width : self.end - self.width] = 0
        self.width = width

    def append(self, states: tuple[Tensor, Tensor], at: Tensor, source: Tensor) -> None:
        """Append rows. ``states``: keys and values, (B, heads, T, size) each. ``at``:
        (R, W) int64, for each new row and column in use where among the T it is found;
        below 0 where the new row has nothing. ``source``: (R,) int64, which of the
        B."""
        rows = slice(self.n_rows, self.n_rows + len(source))
        columns = slice(self.end - self.width, self.end)
        empty = (at < 0)[:, None, :, None]
        for buffer, one in zip(self._held(), states, strict=True):
            found = one[source[:, None], :, at.clamp(min=0)].transpose(1, 2)
            buffer[rows, :, columns] = found.masked_fill(empty, 0)
        self.n_rows = rows.stop

    def move(self, targets: Tensor, sources: Tensor) -> None:
        for buffer in self._held():
            seen = self._seen(buffer)
            seen[targets] = seen[sources]

    def _held(self) -> tuple[Tensor, Tensor]:
        assert self.buffers is not None
        return self.buffers

    def _seen(self, buffer: Tensor) -> Tensor:
        columns = slice(self.end - self.width, self.end + self.n_new)
        return buffer[: self.n_rows, :, columns]


class KVCache:
    """Keys and values of all rows in all layers."""

    def __init__(self) -> None:
        self._layers: list[_Layer] = []
        self.lengths: list[int] = []  # Tokens of each row

    @property
    def width(self) -> int:
        """Number of used columns."""
        return max(self.lengths, default=0)

    @property
    def bytes_per_token(self) -> int:
        """Bytes per token of a row in all layers; 0 before the first row."""
        return sum(
            one.shape[1] * one.shape[3] * one.element_size()
            for layer in self._layers
            for one in layer.buffers or ()
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of all buffers."""
        held = [one for layer in self._layers for one in layer.buffers or ()]
        return sum(one.numel() * one.element_size() for one in held)

    def append(
        self, states: Any, source: Sequence[int], lengths: Sequence[int]
    ) -> None:
        """Append rows; if an error is raised, none of them. ``states``: of each layer
        keys and values, (B, heads, T, size). ``source``: for each new row, which of the
        B it is. ``lengths``: tokens of each new row, the first so many of the T
        columns."""
        if not self._layers:
            self._layers = [_Layer() for _ in states]
        old, width = len(self.lengths), max(self.width, *lengths)
        self._align()
        columns = torch.arange(width) - width + torch.tensor(lengths)[:, None]
        for layer, pair in zip(self._layers, states, strict=True):
            layer.reserve(pair, old + len(source), width)
            layer.pad(width)
            device = pair[0].device
            layer.append(pair, columns.to(device), torch.tensor(source, device=device))
        self.lengths += lengths

    def keep(self, order: Sequence[int]) -> None:
        """Select rows: the new row ``i`` is the old row ``order[i]``."""
        moved = [(i, row) for i, row in enumerate(order) if i != row]
        if moved:
            self._align()
            targets, sources = torch.tensor(moved).T
            for layer in self._layers:
                device = layer.buffers[0].device if layer.buffers else None
                layer.move(targets.to(device), sources.to(device))
        self.lengths = [self.lengths[row] for row in order]

    def trim(self) -> None:
        """Shrink the buffers to the used size."""
        self._align()
        for layer in self._layers:
            if layer.buffers is not None:
                layer.remake(layer.buffers, len(self.lengths), self.width)

    def opened(self) -> Cache:
        """A transformers cache to which a forward pass adds one column.

        After a failed pass, open it again; the partial column is discarded.
        """
        self._align()
        for layer in self._layers:
            assert layer.buffers is not None
            layer.reserve(layer.buffers, len(self.lengths), self.width)
        return Cache(layers=list(self._layers))

    def closed(self) -> None:
        """Commit the column that the forward pass added to all layers."""
        for layer in self._layers:
            layer.end += layer.n_new
        self.lengths = [length + 1 for length in self.lengths]
        self._align()

    def _align(self) -> None:
        width = self.width
        for layer in self._layers:
            layer.n_rows = len(self.lengths)
            layer.width = width
            layer.n_new = 0


SHARE = 0.6
"""Fraction of the free memory for keys and values; the rest is for activations and for
resizing the buffers of one layer."""
FIRST_GROWTH = 64  # Initial estimate of new tokens per sequence
GROWTH_INTERVAL = 128  # Successful steps after which the limits rise by a fourth


class MemoryBudget:
    """Adaptive limits of a batch: tokens held (rows times columns of the KV cache) and
    tokens of a prefill.

    The first is measured: bytes per token from the first rows, free memory before each
    admission. Both are lowered when memory runs out and rise again while steps succeed.
    """

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
