"""KV cache of the current prefix.

A forward pass modifies its cache, so each batch gets a fresh one that concatenates the
cached tensors with the batch's own and discards the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.spans import common_length

Layers = dict[int, tuple[Tensor, Tensor]]
"""Layer index → its keys and values, (1, heads, P, size)."""


class _Past(DynamicCache):
    """A cache that starts with a cached prefix; ``joined`` records the extended layers
    if there is one row. With ``is_apart`` layers get their own keys and values only, or
    those of all ``lined_up`` prefixes and then of all rows as one sequence;
    ``last_layer`` is the last one that did."""

    is_apart = False
    lined_up: Sequence[Layers] = ()
    last_layer = -1

    def __init__(self, layers: Layers, length: int, joined: Layers | None) -> None:
        super().__init__()
        self.prefix = layers
        self._length = length
        self._joined = joined

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[Tensor, Tensor]:
        new = joined = key_states, value_states
        self.last_layer = layer_idx
        if layer_idx in self.prefix and not (self.is_apart and self._joined is None):
            rows = len(key_states)
            old = (part.expand(rows, -1, -1, -1) for part in self.prefix[layer_idx])
            joined = _concatenated(zip(old, new, strict=True))
        if self._joined is not None:
            self._joined[layer_idx] = joined
        if not self.is_apart:
            return joined
        if not self.lined_up:
            return new
        before = [prefix[layer_idx] for prefix in self.lined_up if prefix]
        rows_in_line = [part.transpose(0, 1).flatten(1, 2)[None] for part in new]
        return _concatenated(zip(*before, rows_in_line, strict=True))

    def update_indexer(self, keys: Tensor, layer_idx: int) -> Tensor:
        """(B, T, D) keys by which sparse attention selects tokens, after those of the
        prefix. They are cached as keys of a further layer."""
        joined, _ = self.update(keys[:, None], keys[:, None, :, :0], ~layer_idx)
        return joined[:, 0]

    def __len__(self) -> int:
        # Some models ask a cache for its truth to see whether there is one.
        return max(1, len(self.prefix))

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        return self._length

    def get_query_offset(self, *_: Any, **__: Any) -> int:
        return self._length

    def get_mask_sizes(self, query_length: Any, *_: Any, **__: Any) -> tuple[int, int]:
        # Older versions of transformers give the positions instead of their number.
        n = query_length if isinstance(query_length, int) else len(query_length)
        return self._length + n, 0


class PrefixCache:
    """The cached prefix; another prefix reuses the part that both have in common."""

    def __init__(self, read: Callable[[Ids, int, Any], None]) -> None:
        """``read`` runs the model on ids after so many tokens, with their cache."""
        self._read = read
        self._tokens: Ids = np.zeros(0, dtype=np.int32)
        self._layers: Layers = {}

    def over(self, prefix: Ids, part: Callable[[int], int]) -> Any:
        """A cache of a prefix for one forward pass; ``None`` for an empty prefix.
        ``prefix``: (P,) ids. ``part``: tokens that are there → tokens that may be read
        after them at a time."""
        if len(prefix) == 0:
            return None
        common = common_length(self._tokens, prefix)
        if common < len(prefix):
            self._extend(prefix, common, part)
        return _Past(_first(self._layers, len(prefix)), len(prefix), None)

    @property
    def tokens(self) -> Ids:
        """(P,) ids of the cached prefix."""
        return self._tokens

    def forget(self) -> None:
        """Free the memory."""
        self._tokens, self._layers = self._tokens[:0], {}

    def _extend(self, prefix: Ids, common: int, part: Callable[[int], int]) -> None:
        known, start = _first(self._layers, common), common
        self.forget()
        while start < len(prefix):
            some = prefix[start : start + part(start)]
            joined: Layers = {}
            self._read(some, start, _Past(known, start, joined))
            known, start = joined, start + len(some)
        self._tokens, self._layers = prefix, known


def _concatenated(parts: Iterable[Sequence[Tensor]]) -> tuple[Tensor, Tensor]:
    """Sequences of keys, and those of values, in one."""
    keys, values = (torch.cat(list(some), dim=-2) for some in parts)
    return keys, values


def _first(layers: Layers, length: int) -> Layers:
    """Views of the first ``length`` tokens of all layers."""
    if length == 0:
        return {}
    return {i: (k[:, :, :length], v[:, :, :length]) for i, (k, v) in layers.items()}
