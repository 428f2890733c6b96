"""Estimate of a batch's memory from the model's config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_evals.models.hf.forward import Forward


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes per token, per attention score and per cached token.

    Args:
        token: A token of a batch while it is computed: activations of one layer, or its
            keys and values of all layers if that is more; and its logits where they
            cannot be kept apart.
        cell: A query and a key of a masked batch: the masks, and the scores of all
            heads of one layer where attention keeps them.
        before: A token before a row: its keys and values in one layer.
        joins: Whether masks and keys of a row contain the prefix.
    """

    token: int
    cell: int
    before: int
    joins: bool = True

    def tokens(self, width: int, depth: int) -> int:
        """Cost of a masked row, in tokens of an unmasked one.

        Args:
            width: Its tokens.
            depth: Tokens of the prefix before it.
        """
        seen = width + depth * self.joins
        extra = width * seen * self.cell + depth * self.before
        return width + extra // self.token


def estimate_memory(
    forward: Forward, n_kinds: int = 1, *, joins: bool = True
) -> MemoryEstimate:
    """The estimate for a model with masks for ``n_kinds`` layer types, which contain
    the prefix if it ``joins`` the rows."""
    config = forward.model.config
    inner = getattr(config, "text_config", None) or config
    hidden = _most(inner, "hidden_size") or _most(inner, "n_embd") or 1024
    middle = _most(inner, "intermediate_size") or 4 * hidden
    layers = _most(inner, "num_hidden_layers") or 1
    heads = _most(inner, "num_attention_heads") or 1
    kv_heads = _most(inner, "num_key_value_heads") or heads
    size = int(forward.model.dtype.itemsize)
    kept = 2 * hidden * kv_heads // heads * size
    logits = 0 if forward.picks_hidden else _most(inner, "vocab_size") * 8
    eager = getattr(config, "_attn_implementation", None) == "eager"
    # Scores, their softmax in float32, and that in the model's type.
    scores = heads * (2 * size + 4) if eager and joins else 0
    return MemoryEstimate(
        token=max((8 * hidden + 4 * middle) * size, layers * kept) + logits,
        cell=(size + 1) * n_kinds + 2 + scores,
        # Once as they are kept for all rows, once joined with the row's own.
        before=2 * kept if joins else 0,
        joins=joins,
    )


def _most(config: Any, name: str) -> int:
    """A size in the config; the largest if layers differ, 0 if missing."""
    value = getattr(config, name, None) or 0
    return max(map(int, value)) if isinstance(value, list | tuple) else int(value)
