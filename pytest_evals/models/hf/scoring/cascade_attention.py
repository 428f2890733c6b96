"""Cascade attention: tokens of a batch attend to their prefix and to their own row in
two calls, which are merged by their log-sum-exp.

A mask over prefix and row grows with tokens times prefix, and needs a copy of the
prefix for each row. Here a prefix is one sequence without a mask for all of its rows,
except for windows that do not contain all of it; those are masked in parts. Rows of
several prefixes can share a pass: each attends to its own prefix only. The function
replaces the model's own attention during a forward pass (``replaced_attention``), and a
self-test at load time compares both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pytest_evals.models.hf.scoring.packing import (
    Kinds,
    RowBatch,
    first_visible,
    kind_of_layer,
    masks,
)
from pytest_evals.models.hf.scoring.prefix_cache import Layers

PART_CELLS = {"cuda": 2**26, "cpu": 2**22}
"""Queries times keys of a call with a mask over the prefix, and scores of all heads in
a call without a kernel."""
ALIGNMENT = 8  # Kernels of CUDA want rows of a mask to begin at multiples of 16 bytes
_aten = torch.ops.aten


class Scores(NamedTuple):
    """How attention scores are computed."""

    scale: float  # Factor of the products of queries and keys
    softcap: float | None = None  # Soft cap; ``None`` for none
    sinks: Tensor | None = None  # (H,) scores of attention sinks; ``None`` for none
    bias: Tensor | None = None
    """(1, H, S) of all keys, added to the scores, equal for heads that share keys;
    ``None`` for none."""
    mask: Tensor | None = None  # (B, 1, T, S), added to the scores; ``None`` for none
    causal: bool = False  # Whether tokens attend only to those before them


class _Segment(NamedTuple):
    rows: slice
    layers: Layers


class CascadeAttention:
    """The attention of one batch of rows after their prefixes."""

    def __init__(
        self,
        config: Any,
        kinds: Kinds,
        rows: RowBatch,
        prefixes: Sequence[Layers],
        lined_up: bool,
    ) -> None:
        """The attention of a batch. ``prefixes``: keys and values of each prefix in the
        cache. ``lined_up``: whether layers pass the keys and values of all prefixes and
        then of all rows as one sequence, because they differ from those in the
        cache."""
        self._config = config
        self._lined_up = lined_up
        self._kinds = kinds
        self._rows = rows
        edges = pairwise([0, *accumulate(rows.counts)])
        self._segments = [
            _Segment(slice(*edge), layers)
            for edge, layers in zip(edges, prefixes, strict=True)
        ]
        self._masks: dict[tuple[str, torch.device], Tensor] = {}

    def __call__(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, scores: Scores
    ) -> Tensor:
        """The attention of a layer.

        Args:
            query: (B, H, T, D).
            key: (B, K, T, D) of the rows' own tokens, or (1, K, S, D) of all tokens;
                each serves H / K heads.
            value: (B, K, T, E) or (1, K, S, E).

        Returns:
            (B, T, H, E).
        """
        if scores.bias is not None:
            if not self._lined_up:
                raise NotImplementedError("the bias of the prefix's keys is missing")
            query, key = _with_bias(query, key, scores.bias, scores.scale)
        prefixes: Sequence[tuple[Tensor, Tensor] | None]
        if self._lined_up:
            *prefixes, (key, value) = self._split(query, key, value)
        else:
            prefixes = [self._cached(module, one.layers) for one in self._segments]
        kind = self._kind(module.layer_idx)
        mask = self._own_mask(kind, query)
        suffix = scores._replace(mask=mask, causal=mask is None)
        out, total = attend(query, key, value, suffix)
        merged = []
        for (rows, _), prefix in zip(self._segments, prefixes, strict=True):
            part = out[rows], total[rows]
            other = self._attend_to_prefix(kind, rows, query[rows], prefix, scores)
            merged.append(part if other is None else _merged(part, other))
        out, total = (_joined(parts) for parts in zip(*merged, strict=True))
        if scores.sinks is not None:
            out = out * (total - scores.sinks.float()[:, None]).sigmoid()[..., None]
        return out.to(query.dtype).transpose(1, 2).contiguous()

    def _cached(self, module: Any, layers: Layers) -> tuple[Tensor, Tensor] | None:
        """Those of a prefix in a layer; a layer that computes none uses those of the
        last one of its type (transformers, ``Gemma3nTextAttention``)."""
        if not layers:
            return None
        layer = module.layer_idx
        kind = self._kind(layer)
        while layer not in layers or self._kind(layer) != kind:
            layer -= 1
            if layer < 0:
                raise NotImplementedError("the layer has no keys of the prefix")
        key, value = layers[layer]
        if hasattr(module, "expand_kv"):
            # Compressed in the cache (transformers, ``DeepseekV3Attention``).
            key, value = module.expand_kv(key, value)
        return key, value

    def _split(self, query: Tensor, *lines: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Those of each prefix and of the rows, from one sequence of all."""
        n_rows, width = query.shape[0], query.shape[2]
        lengths = [_length(one.layers) for one in self._segments]
        split = [torch.split(line, [*lengths, n_rows * width], 2) for line in lines]
        *prefixes, suffix = zip(*split, strict=True)
        rows = [
            part[0].unflatten(1, (n_rows, width)).transpose(0, 1) for part in suffix
        ]
        return [*prefixes, (rows[0], rows[1])]

    def _kind(self, layer: int) -> str:
        return kind_of_layer(self._config, self._kinds, layer)

    def _own_mask(self, kind: str, query: Tensor) -> Tensor | None:
        """(B, 1, T, T) mask of the rows' own tokens; ``None`` for causal attention."""
        rows, reach = self._rows, self._kinds[kind]
        last = first_visible(kind, reach, rows.n_positions - 1)
        if not rows.branched and last <= rows.depth:
            return None
        name = (kind, query.device)
        if name not in self._masks:
            ends, positions = rows.ends, rows.positions
            built = masks({kind: reach}, ends, positions, 0, query.dtype)
            assert isinstance(built, Tensor)
            self._masks[name] = _aligned(built.to(query.device))
        return self._masks[name]

    def _attend_to_prefix(
        self,
        kind: str,
        segment: slice,
        query: Tensor,
        prefix: tuple[Tensor, Tensor] | None,
        scores: Scores,
    ) -> tuple[Tensor, Tensor] | None:
        """Attention of rows to their prefix; ``None`` if no window reaches it."""
        if prefix is None:
            return None
        key, value = prefix
        rows, reach = self._rows, self._kinds[kind]
        depth = key.shape[2]
        start = max(0, first_visible(kind, reach, depth))
        if start >= depth:
            return None
        key, value = key[:, :, start:], value[:, :, start:]
        n_rows, n_heads, width, _ = query.shape
        together = query.transpose(0, 1).reshape(1, n_heads, n_rows * width, -1)
        if first_visible(kind, reach, rows.n_positions - 1) <= 0:
            out, total = attend(together, key, value, scores)
        else:
            positions = rows.positions[segment].to(query.device)
            first = first_visible(kind, reach, positions)
            n = _n_queries(depth - start, query.device)
            places = torch.arange(start, depth, device=query.device)
            done = []
            for some, least in zip(
                torch.split(together, n, 2),
                torch.split(first.flatten(), n),
                strict=True,
            ):
                mask = query.new_zeros((1, 1, len(least), len(places)))
                hidden = places < least[:, None]
                mask.masked_fill_(hidden, torch.finfo(query.dtype).min)
                masked = scores._replace(mask=_aligned(mask))
                done.append(attend(some, key, value, masked))
            out, total = (torch.cat(parts, dim=2) for parts in zip(*done, strict=True))
        out = out.reshape(n_heads, n_rows, width, -1).transpose(0, 1)
        return out, total.reshape(n_heads, n_rows, width).transpose(0, 1)


def attend(
    query: Tensor, key: Tensor, value: Tensor, scores: Scores
) -> tuple[Tensor, Tensor]:
    """Attention without sinks, and the log-sum-exp of its scores.

    Args:
        query: (B, H, T, D).
        key: (B, K, S, D).
        value: (B, K, S, E).
        scores: How scores are computed; S = T if they are causal.

    Returns:
        (B, H, T, E), and (B, H, T) float32.
    """
    size, out_size = query.shape[-1], value.shape[-1]
    if scores.softcap is not None:
        return _in_parts(query, key, value, scores)
    if size != out_size:
        # Kernels take one size; zeros do not change the products.
        most = max(size, out_size)
        query, key, value = (_padded(part, most) for part in (query, key, value))
        out, total = attend(query, key, value, scores)
        return out[..., :out_size], total
    if query.device.type == "cpu":
        out, total = _aten._scaled_dot_product_flash_attention_for_cpu(
            query,
            key,
            value,
            0.0,
            scores.causal,
            attn_mask=scores.mask,
            scale=scores.scale,
        )
        return out, total.float()
    if query.device.type == "cuda" and size % ALIGNMENT == 0 and size <= 256:
        return _on_cuda(query, key, value, scores)
    return _in_parts(query, key, value, scores)


def _on_cuda(
    query: Tensor, key: Tensor, value: Tensor, scores: Scores
) -> tuple[Tensor, Tensor]:
    """As :func:`attend`: flash attention in half precision without a mask, else the
    memory-efficient kernel."""
    n_rows, n_heads, n_queries, size = query.shape
    n_kv, mask = key.shape[1], scores.mask
    if mask is None and not scores.causal:
        # Heads that share keys become further queries, so that no key is copied.
        query = query.reshape(n_rows, n_kv, -1, size)
    else:
        key = key.repeat_interleave(n_heads // n_kv, dim=1)
        value = value.repeat_interleave(n_heads // n_kv, dim=1)
    if mask is None and query.dtype in (torch.float16, torch.bfloat16):
        out, total, *_ = _aten._scaled_dot_product_flash_attention(
            query, key, value, 0.0, scores.causal, scale=scores.scale
        )
    else:
        bias = None if mask is None else mask.expand(n_rows, n_heads, -1, -1)
        out, total, *_ = _aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, True, 0.0, scores.causal, scale=scores.scale
        )
        total = total[..., : query.shape[2]]  # padded to a multiple of 32
    shape = (n_rows, n_heads, n_queries)
    return out.reshape(*shape, size), total.reshape(shape)


def _in_parts(
    query: Tensor, key: Tensor, value: Tensor, scores: Scores
) -> tuple[Tensor, Tensor]:
    """As :func:`attend`, without a kernel: scores of some queries at a time."""
    n_rows, n_heads, n_queries, size = query.shape
    n_kv, n_keys = key.shape[1:3]
    grouped = query.reshape(n_rows, n_kv, n_heads // n_kv, n_queries, size)
    keys, values = key[:, :, None].mT, value[:, :, None]
    n = _n_queries(n_rows * n_heads * n_keys, query.device)
    outs, totals = [], []
    for start in range(0, n_queries, n):
        found = (grouped[:, :, :, start : start + n] @ keys).float() * scores.scale
        if scores.softcap is not None:
            found = torch.tanh(found / scores.softcap) * scores.softcap
        if scores.mask is not None:
            found = found + scores.mask[:, :, None, start : start + n].float()
        elif scores.causal:
            later = torch.ones(found.shape[-2:], dtype=torch.bool, device=key.device)
            found = found.masked_fill(later.triu(start + 1), -torch.inf)
        total = found.logsumexp(dim=-1, keepdim=True)
        outs.append((found - total).exp().to(value.dtype) @ values)
        totals.append(total[..., 0])
    out = torch.cat(outs, dim=3).flatten(1, 2)
    return out, torch.cat(totals, dim=3).flatten(1, 2)


def _with_bias(
    query: Tensor, key: Tensor, bias: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Queries and keys whose scaled products contain a bias of each key: no kernel has
    to read a mask. In half precision the factor needs two numbers."""
    factor = float(torch.tensor(1 / scale, dtype=query.dtype))
    factors = query.new_tensor([factor, 1 / scale - factor])
    factors = factors.expand(*query.shape[:-1], 2)
    biases = bias[:, :: query.shape[1] // key.shape[1], :, None]
    query = torch.cat([query, factors], dim=-1)
    key = torch.cat([key, biases.to(key.dtype).expand(-1, -1, -1, 2)], dim=-1)
    size = query.shape[-1] + -query.shape[-1] % ALIGNMENT
    return _padded(query, size), _padded(key, size)


def _merged(
    first: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Attention to the tokens of both, and the log-sum-exp of all scores."""
    (out, total), (other_out, other_total) = first, other
    share = (other_total - total).sigmoid()[..., None]
    out = torch.lerp(out.float(), other_out.float(), share)
    return out, torch.logaddexp(total, other_total)


def _length(layers: Layers) -> int:
    return next((int(key.shape[2]) for key, _ in layers.values()), 0)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _n_queries(n_keys: int, device: torch.device) -> int:
    return max(1, PART_CELLS.get(device.type, 2**24) // n_keys)


def _aligned(mask: Tensor) -> Tensor:
    n = mask.shape[-1]
    return _padded(mask, n + -n % ALIGNMENT)[..., :n]


def _padded(part: Tensor, size: int) -> Tensor:
    return torch.nn.functional.pad(part, (0, size - part.shape[-1]))
