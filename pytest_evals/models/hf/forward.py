"""One pass of a causal model over right-padded rows, with logits only where they are
wanted.

The vocabulary's head is the larger part of the work for small models, and nearly all of
the memory. Where a model is a body and a head and nothing after it, hidden states are
picked before the head; that it is so is tried out when the model is opened, not
believed. No attention mask is given: a causal model does not see the padding to the
right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Chunk", "Forward", "bytes_per_token", "sees_later_tokens"]

CHUNK_ELEMENTS = {"cuda": 2**28, "cpu": 2**24}
"""Logits that are in memory at a time, in float32."""


class Chunk(NamedTuple):
    """Logits of some of the wanted places.

    Args:
        start: First place of the chunk, as an index into the wanted places.
        logits: (p, V) float32.
    """

    start: int
    logits: Tensor


class Forward:
    """A model as a function from token ids to logits at some places."""

    def __init__(self, model: Any) -> None:
        """Find out whether body and head can be run apart."""
        self._model = model
        self._device = model.device
        self.head = model.get_output_embeddings()
        self.picks_hidden = self.head is not None and _is_body_and_head(model)

    def __call__(self, ids: Tensor, places: Tensor) -> Iterator[Chunk]:
        """Logits at the wanted places, chunk by chunk.

        Args:
            ids: (B, T) int64, right-padded.
            places: (P,) int64, flat places ``row * T + position``.
        """
        ids = ids.to(self._device)
        places = places.to(self._device)
        if self.picks_hidden:
            states = self._model.base_model(input_ids=ids, use_cache=False)
            wanted = states.last_hidden_state.flatten(0, 1)[places]  # (P, H)
            width = self.head.weight.shape[0]
        else:
            logits = self._model(input_ids=ids, use_cache=False).logits
            wanted = logits.flatten(0, 1)[places]  # (P, V)
            width = wanted.shape[1]
        most = CHUNK_ELEMENTS.get(self._device.type, 2**24)
        step = max(1, most // width)
        for start in range(0, len(places), step):
            part = wanted[start : start + step]
            yield Chunk(start, (self.head(part) if self.picks_hidden else part).float())


def bytes_per_token(forward: Forward, config: Any) -> int:
    """About what a token of a batch takes on the device: activations of one layer, or
    its keys and values of all layers if that is more; and its logits where the head
    cannot be kept apart."""
    inner = getattr(config, "text_config", None) or config
    hidden = int(getattr(inner, "hidden_size", 0) or getattr(inner, "n_embd", 1024))
    middle = int(getattr(inner, "intermediate_size", 0) or 4 * hidden)
    layers = int(getattr(inner, "num_hidden_layers", 0) or 1)
    heads = int(getattr(inner, "num_attention_heads", 0) or 1)
    kv_heads = int(getattr(inner, "num_key_value_heads", 0) or heads)
    kept = 2 * layers * hidden * kv_heads // heads
    size = 4 if forward.head is None else forward.head.weight.element_size()
    logits = 0 if forward.picks_hidden else int(getattr(inner, "vocab_size", 0)) * 8
    return max(8 * hidden + 4 * middle, kept) * size + logits


def sees_later_tokens(model: Any) -> bool:
    """Whether a token changes the logits of those before it, as in a model that is not
    causal. Such a model's log-likelihoods mean nothing, padded or not."""
    ids = _some_ids(model, n=8)
    changed = ids.clone()
    changed[:, 6:] = ids[:, :2]
    with torch.inference_mode():
        one = model(input_ids=ids, use_cache=False).logits[:, :6]
        other = model(input_ids=changed, use_cache=False).logits[:, :6]
    return not _near(one, other)


def _is_body_and_head(model: Any) -> bool:
    """Whether ``head(body(ids))`` is what the model gives.

    It is tried twice, once with hidden states so large that logits reach 100: a soft
    cap on them changes small logits by less than rounding does.
    """
    body, head = model.base_model, model.get_output_embeddings()
    if body is model or not hasattr(head, "weight"):
        return False
    ids = _some_ids(model, n=8)
    with torch.inference_mode():
        try:
            states = body(input_ids=ids, use_cache=False).last_hidden_state
            mine = head(states)
            # Some models cast or clip on the way: the type must be the same too.
            scale = 100.0 / max(float(mine.abs().max()), 1e-6)
            loud = head(states * scale)
        except (AttributeError, TypeError, RuntimeError):
            return False
        theirs = model(input_ids=ids, use_cache=False).logits
        theirs_loud = _logits_with_scaled_states(model, head, ids, scale)
    return _near(mine, theirs) and _near(loud, theirs_loud)


def _logits_with_scaled_states(
    model: Any, head: Any, ids: Tensor, scale: float
) -> Tensor:
    def scaled(_: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0] * scale, *inputs[1:])

    handle = head.register_forward_pre_hook(scaled)
    try:
        logits: Tensor = model(input_ids=ids, use_cache=False).logits
    finally:
        handle.remove()
    return logits


def _some_ids(model: Any, n: int) -> Tensor:
    """(1, n) different token ids, from all over the vocabulary; always the same."""
    size = model.get_input_embeddings().weight.shape[0]
    ids = torch.arange(1, n + 1) * max(1, size // (n + 1)) % size
    placed: Tensor = ids[None].to(model.device)
    return placed


def _near(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or not torch.isfinite(one).all():
        return False
    rough = one.dtype in (torch.float16, torch.bfloat16)
    most = (one.float() - other.float()).abs().max()
    size = one.float().abs().max().clamp(min=1e-6)
    return bool(most <= (0.02 if rough else 1e-4) * size)
