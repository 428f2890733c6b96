"""Keys and values of texts that are being written: rows that come, grow and go.

All rows end at the same column, so that a row's padding is on its left and a token has
one column for all. Buffers have spare columns, and a row that goes leaves a place that
another row takes: neither a new token nor a row that goes copies what stays. When the
longest row goes, the columns that only it had fall out of sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

SPARE_COLUMNS = 64
"""New columns at least when a buffer is made; a fourth of its width if that is more."""


class _Layer(DynamicLayer):  # type: ignore[no-untyped-call]  # its base is half typed
    """One layer: of two buffers (R, heads, C, size) the rows and columns in use.

    The columns in use are ``end - width`` to ``end``, and ``n_new`` more that a model
    which is running has added.
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
        """Append columns; what is asked of every cache of transformers."""
        start = self.end + self.n_new
        self.n_new += key_states.shape[-2]
        columns = slice(start, self.end + self.n_new)
        keys, values = self._held()
        keys[: self.n_rows, :, columns] = key_states
        values[: self.n_rows, :, columns] = value_states
        return self._seen(keys), self._seen(values)

    def get_seq_length(self) -> int:
        """Columns in use."""
        return self.width + self.n_new

    def reserve(self, like: tuple[Tensor, Tensor], n_rows: int, width: int) -> None:
        """Have so many rows of that width, and a spare column; what is there stays."""
        if self.buffers is not None:
            rows, _, columns, _ = self.buffers[0].shape
            if n_rows <= rows and width <= self.end < columns:
                return
        self.remake(like, n_rows, width)

    def remake(self, like: tuple[Tensor, Tensor], n_rows: int, width: int) -> None:
        """Move what is there to new buffers of just that size."""
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
        """Widen the columns in use to the left. What lies there from before may be no
        number, which no mask would hide."""
        for buffer in self._held():
            buffer[: self.n_rows, :, self.end - width : self.end - self.width] = 0
        self.width = width

    def append(self, states: tuple[Tensor, Tensor], at: Tensor, source: Tensor) -> None:
        """Take up rows.

        Args:
            states: Keys and values, (B, heads, T, size) each.
            at: (R, W) int64, for each new row and column in use where among the T it is
                found; below 0 where the new row has nothing.
            source: (R,) int64, which of the B.
        """
        rows = slice(self.n_rows, self.n_rows + len(source))
        columns = slice(self.end - self.width, self.end)
        empty = (at < 0)[:, None, :, None]
        for buffer, one in zip(self._held(), states, strict=True):
            found = one[source[:, None], :, at.clamp(min=0)].transpose(1, 2)
            buffer[rows, :, columns] = found.masked_fill(empty, 0)
        self.n_rows = rows.stop

    def move(self, targets: Tensor, sources: Tensor) -> None:
        """Put rows in the places of others."""
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
    """The keys and values of all rows of a batch, in all layers."""

    def __init__(self) -> None:
        """An empty shelf."""
        self._layers: list[_Layer] = []
        self.lengths: list[int] = []
        """Tokens of each row."""

    @property
    def width(self) -> int:
        """Columns that are in use."""
        return max(self.lengths, default=0)

    @property
    def bytes_per_token(self) -> int:
        """What a token of a row takes in all layers; 0 before the first row."""
        return sum(
            one.shape[1] * one.shape[3] * one.element_size()
            for layer in self._layers
            for one in layer.buffers or ()
        )

    @property
    def n_bytes(self) -> int:
        """What all buffers take."""
        held = [one for layer in self._layers for one in layer.buffers or ()]
        return sum(one.numel() * one.element_size() for one in held)

    def append(
        self, states: Any, source: Sequence[int], lengths: Sequence[int]
    ) -> None:
        """Take up rows; all or, when an error is raised, none of them.

        Args:
            states: Of each layer keys and values, (B, heads, T, size).
            source: For each new row, which of the B it is.
            lengths: Tokens of each new row, the first so many of the T columns.
        """
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
        """Let rows go: the new row ``i`` is the old row ``order[i]``."""
        moved = [(i, row) for i, row in enumerate(order) if i != row]
        if moved:
            self._align()
            targets, sources = torch.tensor(moved).T
            for layer in self._layers:
                device = layer.buffers[0].device if layer.buffers else None
                layer.move(targets.to(device), sources.to(device))
        self.lengths = [self.lengths[row] for row in order]

    def trim(self) -> None:
        """Give back what the rows do not need."""
        self._align()
        for layer in self._layers:
            if layer.buffers is not None:
                layer.remake(layer.buffers, len(self.lengths), self.width)

    def opened(self) -> Cache:
        """A cache of transformers to which a model adds one column.

        If that fails half-way, it is opened again as if nothing had been added.
        """
        self._align()
        for layer in self._layers:
            assert layer.buffers is not None
            layer.reserve(layer.buffers, len(self.lengths), self.width)
        return Cache(layers=list(self._layers))

    def closed(self) -> None:
        """The column was added to all layers."""
        for layer in self._layers:
            layer.end += layer.n_new
        self.lengths = [length + 1 for length in self.lengths]
        self._align()

    def _align(self) -> None:
        """All layers as wide and as high as the rows are: what was begun and not
        finished goes, and so do columns of rows that went."""
        width = self.width
        for layer in self._layers:
            layer.n_rows = len(self.lengths)
            layer.width = width
            layer.n_new = 0
