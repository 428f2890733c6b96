"""Models whose outputs depend on the length of the sequence or of the batch.

Two kinds of rotary embeddings scale with the longest sequence of a forward pass
("longrope", as in Phi-3, and "dynamic"), so batches of mixed lengths give other results
than single sequences. Llama 4 scales attention by the column of a token in the batch.
Sparse attention (DeepSeek V3.2, GLM with DSA, Doge) selects the best tokens; ties,
which repeated words cause, are resolved by the batch width, padding included. Up to a
certain length outputs do not depend on it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch

from pytest_evals.models.engine.device_memory import fits

SCALED = ("dynamic", "longrope")
PICKED = re.compile(r"(attn|attention|block|index|key|sparse)\w*_top_?k|keep_window")
"""Config names of the number of tokens or blocks that sparse attention selects; shorter
sequences are attended to completely."""


class LengthDependence(NamedTuple):
    """Behaviour in long sequences. ``length``: tokens up to which sequences may be
    mixed; 0 for any number. ``turns``: whether a text that grows beyond it is read
    anew, since all of its positions change at once (transformers, ``Phi3ForCausalLM``).
    ``by_column``: whether the columns of a batch count, regardless of the positions and
    the other rows."""

    length: int
    turns: bool = False
    by_column: bool = False


def length_dependence_of(config: Any) -> LengthDependence:
    """The length dependence that a model's config defines."""
    inner = getattr(config, "text_config", None) or config
    if getattr(inner, "attn_temperature_tuning", False):
        # transformers, ``Llama4TextAttention``: log(1 + floor((column + 1) / this))
        return LengthDependence(int(inner.floor_scale) - 1, by_column=True)
    found = getattr(inner, "rope_parameters", None)
    found = found or getattr(inner, "rope_scaling", None) or {}
    # One kind of rope, or one for each kind of layer.
    ropes = [found, *(rope for rope in found.values() if isinstance(rope, dict))]
    lengths, turns = [], False
    for rope in ropes:
        kind = rope.get("rope_type", rope.get("type"))
        if kind in SCALED:
            length = rope.get("original_max_position_embeddings")
            length = length or getattr(inner, "original_max_position_embeddings", None)
            lengths.append(int(length or inner.max_position_embeddings))
            turns = turns or kind == "longrope"
    lengths += _picked(inner)
    return LengthDependence(min(lengths, default=0), turns)


def _picked(config: Any) -> list[int]:
    found = []
    for name, n in vars(config).items():
        if PICKED.search(name) and type(n) is int and n > 0:
            of_blocks = name.endswith("_blocks")
            size = getattr(config, f"{name.partition('_')[0]}_block_size", 1)
            found.append(n * size if of_blocks else n)
    return found


def reset_rope_scale(model: Any) -> None:
    """Reset a "dynamic" scale, which persists until a short sequence is processed."""
    if not fits(lambda: _read_a_token(model)):
        _read_a_token(model)  # unused memory has been given back since


def _read_a_token(model: Any) -> None:
    ids = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    with torch.inference_mode():
        model.base_model(input_ids=ids, use_cache=False)
