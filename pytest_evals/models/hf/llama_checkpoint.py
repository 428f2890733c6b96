"""Checkpoints of :class:`~pytest_evals.models.hf.llama.Llama`: settings and weights.

A checkpoint is opened here only if all settings of its ``config.json`` are known and
its weights are exactly those that they need. transformers opens all others, and reports
errors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import GenerationConfig
from transformers.utils.hub import cached_files, extract_commit_hash

from pytest_evals.models.hf.llama import Llama
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.hf.weights import origin, path_of


class Family(NamedTuple):
    """Differences between models.

    Args:
        architecture: Class of transformers.
        bias: Whether queries, keys and values have biases.
        norm: Whether queries and keys are normalized.
        needed: Settings that must be present, since transformers' defaults for them
            are not supported here.
    """

    architecture: str
    bias: bool = False
    norm: bool = False
    needed: frozenset[str] = frozenset()


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
USED = {
    *NEEDED,
    "dtype",
    "head_dim",
    "layer_types",
    "model_type",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "torch_dtype",
    "use_sliding_window",
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
OFF = {"attention_bias", "mlp_bias"}
"""Settings that must be false or missing."""
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
        return None


def open_llama(
    settings: HfSettings, config: SimpleNamespace, device: torch.device
) -> Llama | None:
    """The model; ``None`` if transformers has to open it."""
    revision = config._commit_hash or settings.revision
    has_generation = _file(settings, "generation_config.json", revision) is not None
    shards = _shards(settings, revision) if has_generation else ()
    weights: dict[str, Tensor] = {}
    for shard in shards:
        try:
            part = load_file(shard, device=str(device))
        except SafetensorError:
            return None
        weights |= {
            name: weight.to(config.dtype)
            for name, weight in part.items()
            if not name.endswith("rotary_emb.inv_freq")
        }
    with torch.device("meta"):
        model = Llama(config, origin(settings))
    needed = {name: weight.shape for name, weight in model.named_parameters()}
    if {name: weight.shape for name, weight in weights.items()} != needed:
        return None
    model.load_state_dict(weights, strict=False, assign=True)
    if config.tie_word_embeddings:
        model.tie_weights()
    model.model.frequencies = model.model.frequencies.to(device)
    generation: Any = GenerationConfig
    model.generation_config = generation.from_pretrained(
        path_of(settings.target), revision=revision or None
    )
    return model.eval()


def _checked(
    found: dict[str, Any], settings: HfSettings, commit: str
) -> SimpleNamespace | None:
    family = FAMILIES.get(found["model_type"])
    if (
        family is None
        or not (NEEDED | family.needed) <= set(found) <= USED | WITHOUT_EFFECT | OFF
        or any(found.get(name) for name in OFF)
        or found["architectures"] != [family.architecture]
        or found["hidden_act"] != "silu"
        or any(type(found[name]) is not int or found[name] < 1 for name in SIZES)
    ):
        return None
    heads, size = found["num_attention_heads"], found["hidden_size"]
    rope = _rope(found)
    named = {found[name] for name in ("dtype", "torch_dtype") if found.get(name)}
    types = named if settings.dtype == "auto" else {settings.dtype}
    if (
        size % heads
        or heads % found["num_key_value_heads"]
        or rope is None
        or _has_windows(found)
        or len(types) != 1
    ):
        return None
    return SimpleNamespace(
        **{
            **found,
            "dtype": getattr(torch, types.pop()),
            "family": family,
            "head_dim": int(found.get("head_dim") or size // heads),
            "rms_norm_eps": float(found["rms_norm_eps"]),
            "rope": rope,
            "tie_word_embeddings": bool(found.get("tie_word_embeddings")),
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
    return dict(rope)


def _has_windows(found: dict[str, Any]) -> bool:
    if set(found.get("layer_types") or ()) - {"full_attention"}:
        return True
    # Mistral's class of transformers ignores ``use_sliding_window``.
    may_disable = found["model_type"] != "mistral"
    is_disabled = may_disable and found.get("use_sliding_window") is False
    return found.get("sliding_window") is not None and not is_disabled


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
    """Files of the model, downloaded if needed; empty if one of them is not
    available."""
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
