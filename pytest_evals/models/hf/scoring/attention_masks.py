"""Attention masks of packed rows, one for each layer type.

Masks are additive and have the model's dtype: models with custom attention would
silently add a boolean mask as numbers. Windows and chunks are measured in positions,
not in columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

Positions = TypeVar("Positions", int, Tensor)
Kinds = Mapping[str, int]
"""Layer type → size of its window or chunk in positions, 0 for full attention."""
WINDOWS = {"sliding_attention": "sliding_window"}
CHUNKS = {"chunked_attention": "attention_chunk_size"}
REACHES = {"full_attention": "", "indexed_attention": "", **WINDOWS, **CHUNKS}
UNTOLD = re.compile("(?<!keep_)window_(size|len)")
"""Config names of a window that the model applies on its own, by columns and regardless
of the mask (transformers, ``GPTNeoSelfAttention``). Self-tests do not detect it:
sequences beyond the window are too expensive for them."""


def kinds_of(config: Any) -> Kinds | None:
    """The layer types in a model's config; ``None`` if one of them is not supported."""
    inner = getattr(config, "text_config", None) or config
    if any(UNTOLD.search(name) and n for name, n in vars(inner).items()):
        return None
    named = getattr(inner, "layer_types", None)
    if not named:
        window = getattr(inner, "sliding_window", None)
        if window and getattr(inner, "use_sliding_window", True):
            return {"sliding_attention": int(window)}
        return {"full_attention": 0}
    kinds: dict[str, int] = {}
    for kind in dict.fromkeys(named):
        if kind not in REACHES:
            return None
        reach = int(getattr(inner, REACHES[kind], None) or 0)
        if REACHES[kind] and not reach:
            return None
        kinds[kind] = reach
    return kinds


def masks(
    kinds: Kinds, ends: Tensor, positions: Tensor, depth: int, dtype: torch.dtype
) -> Tensor | dict[str, Tensor]:
    """One mask if all layers have the same type, else one for each type.

    Args:
        ends: (B, T) int, place after the last descendant of each token.
        positions: (B, T) int, position of each token in its sequence.
        depth: Tokens of the prefix before the rows, which each token sees.

    Returns:
        (B, 1, T, depth + T) each.
    """
    n_rows, width = ends.shape
    places = torch.arange(width, device=ends.device)
    hidden = (places[:, None] >= ends[:, None, :]) | (places > places[:, None])
    prefix = torch.arange(depth, device=ends.device).expand(n_rows, depth)
    keys = torch.cat([prefix, positions], dim=1)
    built: dict[str, Tensor] = {}
    for kind, reach in kinds.items():
        mask = torch.zeros(
            (n_rows, width, depth + width), dtype=dtype, device=ends.device
        )
        least = torch.finfo(dtype).min
        mask[..., depth:].masked_fill_(hidden, least)
        if reach:
            first = first_visible(kind, reach, positions)
            # Compared as a whole: a difference of positions would take 8 bytes a cell.
            mask.masked_fill_(keys[:, None, :] < first[:, :, None], least)
        built[kind] = mask[:, None]
    return built if len(built) > 1 else next(iter(built.values()))


def first_visible(kind: str, reach: int, positions: Positions) -> Positions:
    """First position that a token at each position attends to; may be negative."""
    if not reach:
        return positions * 0
    if kind in WINDOWS:
        return positions - (reach - 1)
    return positions // reach * reach


def kind_of_layer(config: Any, kinds: Kinds, layer: int) -> str:
    """The type of a layer, one of those of :func:`kinds_of`."""
    if len(kinds) == 1:
        return next(iter(kinds))
    inner = getattr(config, "text_config", None) or config
    return str(inner.layer_types[layer])
