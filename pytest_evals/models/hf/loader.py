"""Loading of Hugging Face models: tokenizer, weights and metadata.

Messages of transformers are silenced during loading; relevant ones become errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from pytest_evals.errors import ModelError
from pytest_evals.models.checkpoint import weights_hash
from pytest_evals.models.engine.device_memory import (
    device_name,
    is_out_of_memory,
    use_device,
)
from pytest_evals.models.hf.llama import Llama
from pytest_evals.models.hf.llama_checkpoint import open_llama, read_config
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.hf.weights import load_weights, reads_images
from pytest_evals.models.tokens.loader import (
    advice_of,
    describe_tokenizer,
    first_line,
    one_error,
    origin,
    quiet,
    read_tokenizer,
)

DEFAULT_LENGTH = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in evaluation mode on its device, with tokenizer and settings."""

    model: Any
    tokenizer: Any
    settings: HfSettings
    max_length: int  # Tokens of its context window
    n_embeddings: int  # Number of token ids that it knows
    note: str = ""  # Warning about its weights; empty for none
    reads_images: bool = False

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.model.device
        return device


def load(settings: HfSettings) -> LoadedModel:
    """Load a model. Raises ``ModelError`` if it cannot be loaded, is not a causal
    language model, or some of its weights are missing from the checkpoint."""
    # The tokenizer warns whenever a process forks after it was used in threads, unless
    # the user has enabled threads explicitly.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    device = _device(settings)
    with quiet(), one_error(settings.target, _advice):
        simple = read_config(settings)
        config = simple or _config(settings)
        tokenizer = read_tokenizer(settings, simple)
        model: Any = simple and open_llama(settings, simple, device)
        note, with_images = "", False
        if model is None:
            config = _config(settings) if simple else config
            with_images = reads_images(settings, config)
            model, note = load_weights(settings, config, device, with_images)
    n_embeddings = model.get_input_embeddings().weight.shape[0]
    window = _max_length(config, tokenizer)
    _check_ids(settings, model, window, n_embeddings)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        settings=settings,
        max_length=settings.max_length or window,
        n_embeddings=n_embeddings,
        note=note,
        reads_images=with_images,
    )


def describe(loaded: LoadedModel, name: str) -> Mapping[str, Any]:
    """Model metadata for results files: JSON values without secrets. Models with equal
    metadata give equal outputs; excludes machine settings such as the batch size."""
    model, settings = loaded.model, loaded.settings
    return {
        "model": name,
        "pretrained": settings.target,
        "revision": settings.revision,
        "commit": getattr(model.config, "_commit_hash", None) or "",
        "weights": weights_hash(settings.target),
        "model_class": model.config.architectures[0]
        if isinstance(model, Llama)
        else type(model).__name__,
        "num_parameters": model.num_parameters(),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(loaded.device),
        "device_name": device_name(loaded.device),
        "device_map": settings.device_map,
        "peft": settings.peft,
        "peft_weights": weights_hash(settings.peft),
        "quantization": _quantisation(model),
        "attn_implementation": getattr(model.config, "_attn_implementation", None),
        "max_length": loaded.max_length,
        **describe_tokenizer(loaded.tokenizer, settings),
        "torch_version": torch.__version__,
        "transformers_version": transformers.__version__,
    }


def _config(settings: HfSettings) -> Any:
    config = transformers.AutoConfig.from_pretrained(**origin(settings))
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{settings.target!r} is an encoder-decoder model ({config.model_type}); "
            "the hf model takes decoder-only (causal) models"
        )
    return config


def _device(settings: HfSettings) -> torch.device:
    """The device to use; a GPU has an index."""
    name = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.empty(1, device=name).device
        use_device(device)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise ModelError(
            f"there is no device {name!r} here ({first_line(error)}); "
            "leave device out, or write device=cpu"
        ) from error
    return device


def _check_ids(settings: HfSettings, model: Any, window: int, n_tokens: int) -> None:
    """Check positions and token ids that the user sets: an index beyond a table is a
    bare ``IndexError`` on a CPU, and leaves a GPU unusable for the process."""
    tables = (
        module.num_embeddings - getattr(module, "offset", 0)  # OPT has unused rows
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Embedding) and ("pos" in name or "wpe" in name)
    )
    # Vision towers have tables of other sizes, rotary embeddings none.
    if settings.max_length > window and window in tables:
        raise ModelError(
            f"the hf model's max_length is {settings.max_length}, and "
            f"{settings.target!r} has embeddings of {window} positions only"
        )
    if (settings.prefix_token_id or 0) >= n_tokens:
        raise ModelError(
            f"the hf model's prefix_token_id is {settings.prefix_token_id}, and "
            f"{settings.target!r} has {n_tokens} tokens only"
        )


def _max_length(config: Any, tokenizer: Any) -> int:
    """Context window in tokens, from the same config fields and in the same order as in
    lm-eval 0.4.13 (``models/utils.py``, ``resolve_max_length``)."""
    inner = getattr(config, "text_config", None) or config
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        length = getattr(inner, name, None)
        if length is not None:
            return int(length)
    length = getattr(tokenizer, "model_max_length", None)
    # Tokenizers without a limit have a number near 1e30.
    return int(length) if length is not None and length < 1e18 else DEFAULT_LENGTH


def _quantisation(model: Any) -> dict[str, Any]:
    """Quantization config of the model; empty if it is not quantized."""
    found = getattr(model.config, "quantization_config", None)
    if found is None:
        return {}
    shown = found if isinstance(found, dict) else found.to_dict()
    return {str(k): v for k, v in json.loads(json.dumps(shown, default=str)).items()}


def _advice(target: str, error: Exception) -> str:
    if "above report" in str(error):  # logged; its weights are not in the error
        command = f"transformers.AutoModelForCausalLM.from_pretrained({target!r})"
        return f'\n  fix: see that report: python -c "import transformers; {command}"'
    if is_out_of_memory(error) and "trust_remote_code" not in str(error):
        return "\n  fix: add dtype=bfloat16, or choose a device with more memory"
    return advice_of(target, error)
