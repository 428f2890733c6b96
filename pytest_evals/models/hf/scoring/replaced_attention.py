"""Replace a model's attention during a forward pass.

Most models select their attention function by name (transformers,
``AttentionInterface``). Others call torch's ``scaled_dot_product_attention`` (Falcon,
``hf.llama``) or a method ``_attn`` of each layer (GPT-J), and layers of XGLM do
everything themselves. Any other model keeps its own attention, and a self-test at load
time rejects the result.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import local
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pytest_evals.models.hf.scoring.cascade_attention import Scores
from pytest_evals.models.hf.scoring.packing import Kinds

NAME = "pytest_evals_cascade"
MASK_OF_SCORES = "prepare_dynamic_mask"
"""Method of a layer that adds a score for each key to the mask (transformers,
``DogeAttention``)."""
_active = local()


def uses_interface(model: Any) -> bool:
    """Whether a model's layers select their attention function by name."""
    files = {sys.modules.get(type(layer).__module__) for layer in _layers(model)}
    return any(hasattr(file, "ALL_ATTENTION_FUNCTIONS") for file in files)


def placeholder_mask(kinds: Kinds, dtype: torch.dtype, ids: Tensor) -> Any:
    """A mask of one element, for models that require a mask. Attention is rejected if
    it gets a larger one, which the model has computed from this one."""
    mask = ids.new_zeros((1, 1, 1, 1), dtype=dtype)
    return dict.fromkeys(kinds, mask) if len(kinds) > 1 else mask


@contextmanager
def replaced_attention(model: Any, function: Any, past: Any = None) -> Iterator[None]:
    """Use ``function`` as the attention of a model's layers in this thread; ``past`` is
    the cache of the forward pass if they do not select attention by name."""
    _active.function = function
    replaced = _selected(model) if past is None else _called(model, past)
    try:
        with replaced:
            yield
    finally:
        _active.function = None


@contextmanager
def _selected(model: Any) -> Iterator[None]:
    transformers.AttentionInterface.register(NAME, _attention)
    configs = {
        id(module.config): module.config
        for module in model.modules()
        if hasattr(getattr(module, "config", None), "_attn_implementation_internal")
    }
    usual = {key: c._attn_implementation_internal for key, c in configs.items()}
    for config in configs.values():
        config._attn_implementation_internal = NAME
    try:
        with ExitStack() as stack:
            for layer in _layers(model):
                if hasattr(layer, MASK_OF_SCORES):
                    stack.enter_context(_attribute(layer, MASK_OF_SCORES, _bias))
            yield
    finally:
        for key, config in configs.items():
            config._attn_implementation_internal = usual[key]


def _bias(dt_states: Tensor, **_: Any) -> Tensor:
    """(B, K, 1, S) scores of keys, without a mask."""
    return dt_states[:, :, None]


@contextmanager
def _called(model: Any, past: Any) -> Iterator[None]:
    """Replace the method ``_attn`` of layers (transformers, ``GPTJAttention``), all of
    a layer (``XGLMAttention``), and torch's function."""
    with ExitStack() as stack:
        for layer in _layers(model):
            if hasattr(type(layer), "_attn"):
                attention = partial(_layer_attention, layer)
                stack.enter_context(_attribute(layer, "_attn", attention))
            elif type(layer).__name__ == "XGLMAttention":
                attention = partial(_projected_attention, layer, past)
                stack.enter_context(_attribute(layer, "forward", attention))
        stack.enter_context(_TorchAttention(past))
        yield


@contextmanager
def _attribute(layer: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of an instance."""
    usual = vars(layer).get(name)
    setattr(layer, name, value)
    try:
        yield
    finally:
        if usual is None:
            delattr(layer, name)
        else:
            setattr(layer, name, usual)


def _layers(model: Any) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "layer_idx")]


class _Layer(NamedTuple):
    """A layer whose module is unknown."""

    layer_idx: int


class _TorchAttention(TorchFunctionMode):
    """Replaces torch's function in the layer that used the cache last."""

    def __init__(self, past: Any) -> None:
        super().__init__()
        self._past = past

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self._attend(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, *mask: Any, **given: Any
    ) -> Tensor:
        # Some models fold the heads that share keys into the queries of one token.
        heads = query.reshape(len(query), -1, *key.shape[2:])
        given = {
            "attention_mask": given.get("attn_mask"),
            "scaling": given.get("scale"),
        }
        layer = _Layer(self._past.last_layer)
        out, _ = _attention(layer, heads, key, value, *mask, **given)
        return out.transpose(1, 2).reshape(*query.shape[:-1], -1)


def _layer_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, *_: Any
) -> tuple[Tensor, None]:
    """Attention function with the signature of ``GPTJAttention._attn``."""
    out, weights = _attention(module, query, key, value, mask)
    return out.transpose(1, 2), weights


def _projected_attention(
    layer: Any, past: Any, hidden_states: Tensor, *_: Any, **__: Any
) -> tuple[Tensor, None]:
    """A layer of queries, keys and values without position embeddings."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (
        projection(hidden_states).unflatten(2, (-1, layer.head_dim)).transpose(1, 2)
        for projection in projections
    )
    key, value = past.update(key, value, layer.layer_idx)
    out, weights = _attention(layer, query, key, value, scaling=layer.scaling)
    return layer.out_proj(out.flatten(2)), weights


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, *masks: Any, **given: Any
) -> tuple[Tensor, None]:
    """Attention function with the signature of transformers."""
    # For a function that it does not know, transformers makes no mask: one that is not
    # the placeholder is more than a mask, such as the position bias of ALiBi.
    bias = None
    for mask in (*masks[:1], given.get("attention_mask")):
        if mask is not None and mask.numel() > 1:
            if mask.shape[1:] != (query.shape[1], 1, key.shape[2]):
                raise NotImplementedError("the model computes an attention mask")
            bias = mask[:, :, 0]
    scale = given.get("scaling")
    scores = Scores(
        query.shape[-1] ** -0.5 if scale is None else scale,
        given.get("softcap"),
        given.get("s_aux"),
        bias,
    )
    return _active.function(module, query, key, value, scores), None
