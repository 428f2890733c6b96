"""Decoder with transformers' cache of a model's layer types.

For layers that keep states of a fixed size (Mamba), also together with keys and values
(Qwen3-Next, Jamba, LFM2, Falcon H1). Padding would change states, so prompts of one
length are prefilled together, and whole: models may not continue a state by several
tokens. Keys and values are padded on the left. A failed step may leave states half
updated; they are then recomputed from the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import (
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

from pytest_evals.models.hf.forward import Forward, TokenCounts
from pytest_evals.models.hf.generation.prefill import SharedPrefix
from pytest_evals.models.tokens.encoder import Ids

GROWING = ("keys", "values")  # Attributes of a layer with a column for each token


@dataclass(slots=True, eq=False)
class ModelCacheDecoder:
    """Decoder with a transformers cache of all rows."""

    forward: Forward
    counters: TokenCounts
    _rows: list[list[int]] = field(default_factory=list)
    _cache: Any = None

    @torch.inference_mode()
    def join(
        self,
        prompts: Sequence[Ids],
        branch: SharedPrefix | None,
        keeps_last: bool,
        most: int = 0,
    ) -> Tensor:
        """Prefill each distinct prompt once."""
        rows = [[int(token) for token in prompt] for prompt in prompts]
        old = self._restored()
        logits, cache, at = self._prefilled(rows)
        if old is not None:
            n = len(self._rows)
            cache = _joined([old, cache], [*range(n), *(n + i for i in at)])
        else:
            cache = _joined([cache], at)
        self._cache = cache
        self._rows += rows
        return logits[at]

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Process one token a row."""
        cache, self._cache = self._restored(), None
        lengths = torch.tensor([len(row) for row in self._rows])
        width = int(lengths.max())
        mask = torch.arange(width + 1) >= width - lengths[:, None]
        logits = self._logits(tokens[:, None], mask.long(), lengths[:, None], cache)
        self._rows = [
            [*row, token]
            for row, token in zip(self._rows, tokens.tolist(), strict=True)
        ]
        self._cache = cache
        return logits

    @torch.inference_mode()
    def keep(self, order: Sequence[int]) -> None:
        """Select rows; the others' memory is freed."""
        rows = [self._rows[row] for row in order]
        if self._cache is not None and list(order) != list(range(len(self._rows))):
            width = max(map(len, rows), default=0)
            self._cache = _joined([self._cache], order, width) if rows else None
        self._rows = rows

    def trim(self) -> None:
        """Does nothing, since rows that leave free their memory."""

    def clear(self) -> None:
        """Remove all rows."""
        self._rows, self._cache = [], None

    @property
    def held(self) -> tuple[int, int]:
        """Bytes per token of a row, its share of the states included, and of all."""
        n_tokens = sum(map(len, self._rows))
        if self._cache is None or not n_tokens:
            return 0, 0
        n_bytes = sum(part.nbytes for part in _tensors(self._cache))
        return max(1, n_bytes // n_tokens), n_bytes

    def _restored(self) -> Any:
        """The states of all rows; ``None`` without rows."""
        if self._cache is None and self._rows:
            _, cache, at = self._prefilled(self._rows)
            self._cache = _joined([cache], at)
        return self._cache

    def _prefilled(
        self, rows: Sequence[Sequence[int]]
    ) -> tuple[Tensor, Any, list[int]]:
        """Prefill distinct rows. Returns (B, V) float32 logits of the next tokens, the
        cache, and for each of the rows which of the B it is."""
        distinct = sorted(set(map(tuple, rows)), key=len)
        caches, logits = [], []
        start = 0
        while start < len(distinct):
            n = len(distinct[start])
            same = [row for row in distinct[start:] if len(row) == n]
            cache = self._new_cache()
            ids = torch.tensor(same)
            logits.append(
                self._logits(ids, None, torch.arange(n).expand(ids.shape), cache)
            )
            caches.append(cache)
            start += len(same)
        places = {row: i for i, row in enumerate(distinct)}
        at = [places[tuple(row)] for row in rows]
        return torch.cat(logits), _joined(caches, range(len(distinct))), at

    def _new_cache(self) -> Any:
        """An empty cache; layers with a window keep all tokens of padded rows."""
        cache: Any = DynamicCache(config=self.forward.model.config)
        with_all: Any = DynamicLayer
        cache.layers = [
            with_all() if isinstance(layer, DynamicSlidingWindowLayer) else layer
            for layer in cache.layers
        ]
        return cache

    def _logits(
        self, ids: Tensor, mask: Tensor | None, positions: Tensor, cache: Any
    ) -> Tensor:
        """(B, V) float32 logits after the last column."""
        view = self.forward.after(cache, mask if _width(cache) else None, positions)
        n_rows, width = ids.shape
        places = torch.arange(1, n_rows + 1) * width - 1
        logits = self.forward.logits(ids, places, view)
        self.counters.add(ids.numel(), ids.numel())
        return logits


def _joined(caches: Sequence[Any], order: Sequence[int], width: int = 0) -> Any:
    """A cache of rows of several caches. ``width``: its columns, 0 for the most."""
    width = width or max(map(_width, caches))
    joined = copy(caches[0])
    joined.layers = [
        _joined_layer(layers, order, width)
        for layers in zip(*(cache.layers for cache in caches), strict=True)
    ]
    return joined


def _joined_layer(layers: Sequence[Any], order: Sequence[int], width: int) -> Any:
    joined = copy(layers[0])
    for name, value in vars(layers[0]).items():
        if name in GROWING and value is not None:
            # A negative number of columns to add removes them.
            parts = [
                pad(part, (0, 0, width - part.shape[-2], 0))
                for part in (getattr(layer, name) for layer in layers)
            ]
            setattr(joined, name, _rows_of(parts, order))
        elif isinstance(value, dict):
            states = {
                i: _rows_of([getattr(layer, name)[i] for layer in layers], order)
                if isinstance(part, Tensor)
                else part
                for i, part in value.items()
            }
            setattr(joined, name, states)
        elif _differ([vars(layer)[name] for layer in layers]):
            raise NotImplementedError(f"layers with different {name}")
    return joined


def _differ(values: Sequence[Any]) -> bool:
    """Whether they are not equal; tensors may only be the same."""
    return any(
        other is not values[0] and (isinstance(other, Tensor) or other != values[0])
        for other in values
    )


def _rows_of(parts: Sequence[Tensor], order: Sequence[int]) -> Tensor:
    return torch.cat(list(parts)).index_select(
        0, torch.tensor(order, device=parts[0].device)
    )


def _width(cache: Any) -> int:
    """Columns of keys and values."""
    keys = [getattr(layer, "keys", None) for layer in cache.layers]
    return max((part.shape[-2] for part in keys if part is not None), default=0)


def _tensors(cache: Any) -> Iterator[Tensor]:
    for layer in cache.layers:
        for value in vars(layer).values():
            some = value.values() if isinstance(value, dict) else [value]
            yield from (part for part in some if isinstance(part, Tensor))
