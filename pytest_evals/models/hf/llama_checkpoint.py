"""Checkpoints of :class:`~pytest_evals.models.hf.llama.Llama`: settings and weights.

A checkpoint is opened here only if all settings of its ``config.json`` are known and
its weights are exactly those that they need. transformers opens all others, and reports
errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import NoneType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import GenerationConfig
from transformers.utils.hub import cached_files, extract_commit_hash

from pytest_evals.models.folders import path_of
from pytest_evals.models.hf.llama import Llama
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.tokens.loader import origin


class Family(NamedTuple):
    """Differences between models."""

    architecture: str
    bias: bool = False  # Whether queries, keys and values have biases
    norm: bool = False  # Whether queries and keys are normalized
    needed: frozenset[str] = frozenset()
    """Settings that must be present, since transformers' defaults for them are not
    supported here."""


FAMILIES = {
    "llama": Family("LlamaForCausalLM"),
    "mistral": Family("MistralForCausalLM", needed=frozenset({"sliding_window"})),
    "qwen2": Family("Qwen2ForCausalLM", bias=True),
    "qwen3": Family("Qwen3ForCausalLM", norm=True, needed=frozenset({"head_dim"})),
}
"""By ``model_type``."""
SIZES = {
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
}
NEEDED = {*SIZES, "architectures", "hidden_act", "rms_norm_eps"}
TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(SIZES, (int,)),
    "head_dim": (int, NoneType),
    "layer_types": (list, NoneType),
    "rms_norm_eps": (float,),
    "tie_word_embeddings": (bool,),
    "use_sliding_window": (bool,),
}
"""Of values that transformers rejects otherwise."""
USED = {
    *NEEDED,
    *TYPES,
    "dtype",
    "model_type",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "torch_dtype",
}
WITHOUT_EFFECT = {
    "_name_or_path",
    "attention_dropout",
    "bos_token_id",
    "eos_token_id",
    "initializer_range",
    "max_window_layers",
    "pad_token_id",
    "pretraining_tp",
    "tokenizer_class",
    "transformers_version",
    "use_cache",
}
OFF = {"attention_bias", "mlp_bias"}  # Settings that must be false or missing
DTYPES = {"bfloat16", "float16", "float32"}
INV_FREQ = "rotary_emb.inv_freq"  # End of names of weights that follow from settings
ROPES = {
    "default": {"rope_theta"},
    "llama3": {
        "rope_theta",
        "factor",
        "high_freq_factor",
        "low_freq_factor",
        "original_max_position_embeddings",
    },
}
"""Types of rotary embeddings, with the numbers that each needs."""


def read_config(settings: HfSettings) -> SimpleNamespace | None:
    """The settings of a model, or ``None`` if transformers has to open it."""
    special = settings.attn_implementation or settings.device_map or settings.peft
    if special or settings.quantises:
        return None
    path = _file(settings, "config.json", settings.revision)
    if path is None:
        return None
    commit = extract_commit_hash(str(path), None) or ""
    if _file(settings, "adapter_config.json", commit or settings.revision):
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return _checked(found, settings, commit)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # transformers knows more forms, and has the better errors


def open_llama(
    settings: HfSettings, config: SimpleNamespace, device: torch.device
) -> Llama | None:
    """The model; ``None`` if transformers has to open it."""
    revision = config._commit_hash or settings.revision
    generation: Any = GenerationConfig
    try:
        for_generation = generation.from_pretrained(
            path_of(settings.target), revision=revision or None
        )
    except (OSError, ValueError):
        return None
    with torch.device("meta"):
        model = Llama(config, origin(settings))
    needed = {name: list(weight.shape) for name, weight in model.named_parameters()}
    weights = _weights(_shards(settings, revision), needed, device, config.dtype)
    if not weights:
        return None
    model.load_state_dict(weights, strict=False, assign=True)
    if config.tie_word_embeddings:
        model.tie_weights()
    model.model.frequencies = model.model.frequencies.to(device)
    model.generation_config = for_generation
    return model.eval()


def _checked(
    found: dict[str, Any], settings: HfSettings, commit: str
) -> SimpleNamespace | None:
    family = FAMILIES.get(found["model_type"])
    if (
        family is None
        or not (NEEDED | family.needed) <= set(found) <= USED | WITHOUT_EFFECT | OFF
        or any(type(found[n]) not in TYPES[n] for n in TYPES.keys() & found.keys())
        or any(found.get(name) for name in OFF)
        or found["architectures"] != [family.architecture]
        or found["hidden_act"] != "silu"
        or ("head_dim" in family.needed and found["head_dim"] is None)
        or min(found[name] for name in SIZES) < 1
    ):
        return None
    heads, size = found["num_attention_heads"], found["hidden_size"]
    head_dim = size // heads if found.get("head_dim") is None else found["head_dim"]
    rope = _rope(found)
    named = {found[name] for name in ("dtype", "torch_dtype") if found.get(name)}
    types = named if settings.dtype == "auto" else {settings.dtype}
    if (
        size % heads
        or heads % found["num_key_value_heads"]
        or head_dim < 2
        or head_dim % 2
        or rope is None
        or _has_windows(found)
        or len(types) != 1
        or not named | types <= DTYPES
    ):
        return None
    return SimpleNamespace(
        **{
            **found,
            "dtype": getattr(torch, types.pop()),
            "family": family,
            "head_dim": head_dim,
            "rope": rope,
            "tie_word_embeddings": found.get("tie_word_embeddings", False),
            "_attn_implementation": "sdpa",
            "_commit_hash": commit,
            "_name_or_path": settings.target,
        }
    )


def _rope(found: dict[str, Any]) -> dict[str, Any] | None:
    """Settings of the rotary embeddings, in the form of transformers 4 or 5."""
    new, old = found.get("rope_parameters"), found.get("rope_scaling")
    if (new is None) == ("rope_theta" not in found) or (new and old):
        return None
    rope = new or {
        "rope_type": "default",
        "rope_theta": found["rope_theta"],
        **(old or {}),
    }
    numbers = {name for name, value in rope.items() if type(value) in (int, float)}
    if ROPES.get(str(rope.get("rope_type"))) != numbers or len(rope) > len(numbers) + 1:
        return None
    if "factor" in rope and not rope["low_freq_factor"] < rope["high_freq_factor"]:
        return None
    return dict(rope)


def _has_windows(found: dict[str, Any]) -> bool:
    n_layers, types = found["num_hidden_layers"], found.get("layer_types")
    if types is not None and types != ["full_attention"] * n_layers:
        return True
    # Mistral's class of transformers ignores ``use_sliding_window``. With layer types
    # transformers takes Ministral's.
    is_mistral = found["model_type"] == "mistral"
    if is_mistral and "layer_types" in found:
        return True
    is_disabled = not is_mistral and found.get("use_sliding_window") is False
    return found.get("sliding_window") is not None and not is_disabled


def _weights(
    shards: Sequence[str],
    needed: Mapping[str, Sequence[int]],
    device: torch.device,
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """The weights; empty unless exactly those of the ``needed`` shapes are in the
    files, whose headers are read first."""
    with ExitStack() as stack:
        files: dict[str, Any] = {}
        try:
            for path in shards:
                file = stack.enter_context(safe_open(path, "pt", device=str(device)))
                files |= dict.fromkeys(file.keys(), file)
        except SafetensorError:
            return {}
        files = {n: f for n, f in files.items() if not n.endswith(INV_FREQ)}
        if {n: f.get_slice(n).get_shape() for n, f in files.items()} != needed:
            return {}
        return {n: f.get_tensor(n).to(dtype) for n, f in files.items()}


def _shards(settings: HfSettings, revision: str) -> Sequence[str]:
    """The files of the weights; empty if some are missing."""
    single = _file(settings, "model.safetensors", revision)
    if single is not None:
        return [str(single)]
    index = _file(settings, "model.safetensors.index.json", revision)
    if index is None:
        return ()
    named = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    return _files(settings, sorted(set(named.values())), revision)


def _file(settings: HfSettings, name: str, revision: str) -> Path | None:
    found = _files(settings, [name], revision)
    return Path(found[0]) if found else None


def _files(settings: HfSettings, names: list[str], revision: str) -> Sequence[str]:
    """Files of the model, downloaded if needed; empty if one is not available."""
    try:
        found = cached_files(
            path_of(settings.target),
            names,
            revision=revision or None,
            _raise_exceptions_for_missing_entries=False,
        )
    except (OSError, ValueError):
        return ()
    return found if found and len(found) == len(names) and all(found) else ()
