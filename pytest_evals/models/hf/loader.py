"""Loading of Hugging Face models: tokenizer, weights and metadata.

Messages of transformers are silenced during loading; relevant ones become errors.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
from transformers.utils.hub import cached_file

from pytest_evals.errors import MissingExtraError, ModelError
from pytest_evals.models.checkpoint import weights_hash
from pytest_evals.models.engine.device_memory import (
    device_name,
    is_out_of_memory,
    use_device,
)
from pytest_evals.models.folders import PROCESSOR_FILES, path_of
from pytest_evals.models.hf.llama import Llama
from pytest_evals.models.hf.llama_checkpoint import open_llama, read_config
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.tokens.loader import (
    advice_of,
    describe_tokenizer,
    first_line,
    one_error,
    origin,
    quiet,
    read_tokenizer,
)

COMPUTED = ("rotary_emb.inv_freq", "attn.masked_bias", "attention.masked_bias")
"""Ends of names in old checkpoints of what models compute themselves."""
_ADAPTER = "set peft= to an adapter of this model"
MOST_SHOWN = 3  # Maximum of weights that an error names
# transformers 5 logs the sizes, and raises an error without them. Version 4 raises one
# with the sizes; with this argument it would read all weights twice.
_IS_OLD = transformers.__version__.startswith("4.")
_NOT_RAISED: dict[str, Any] = {} if _IS_OLD else {"ignore_mismatched_sizes": True}


def load_weights(
    settings: HfSettings, config: Any, device: torch.device, with_images: bool = False
) -> tuple[Any, str]:
    """A model in evaluation mode on its device or devices; and a warning if it does not
    use all weights, such as those of layers that the config leaves out. Raises
    ``ModelError`` if some weights are missing, or the adapter does not fit. Raises
    ``MissingExtraError`` if a library is missing."""
    placed, target = _placement(settings, device), settings.target
    name = "AutoModelForImageTextToText" if with_images else "AutoModelForCausalLM"
    options: dict[str, Any] = {**_NOT_RAISED, **placed}
    if settings.attn_implementation:
        options["attn_implementation"] = settings.attn_implementation
    if settings.quantises:
        options["quantization_config"] = _quantisation(settings)
    dtype = settings.dtype
    model, found = getattr(transformers, name).from_pretrained(
        **origin(settings),
        config=config,
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        output_loading_info=True,
        **options,
    )
    if missing := sorted(found["missing_keys"]):
        raise ModelError(
            f"the checkpoint {target!r} lacks weights of a "
            f"{type(model).__name__}: {_first_of(missing)}; "
            "they would be random, so this is not a model that can be scored"
        )
    owners = f"the config.json and the weights of {target!r}"
    fix = "use a config.json and weights of the same model"
    _refuse_other_sizes(found["mismatched_keys"], owners, fix)
    if settings.peft:
        _adapt(model, settings)
    unused = sorted(n for n in found["unexpected_keys"] if not n.endswith(COMPUTED))
    note = (
        f"the checkpoint {target!r} has weights that the model does not use: "
        f"{_first_of(unused)}; check that its config.json is the right one"
    )
    model = model.eval() if placed else model.eval().to(device)
    return model, note if unused else ""


def reads_images(settings: HfSettings, config: Any) -> bool:
    """Whether a checkpoint is an image-text-to-text model with a processor. Of some
    families, transformers opens the text model alone as well."""
    if type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return False
    options = {
        "revision": settings.revision or None,
        "_raise_exceptions_for_missing_entries": False,
        "_raise_exceptions_for_connection_errors": False,
    }
    path = path_of(settings.target)
    return any(cached_file(path, name, **options) for name in PROCESSOR_FILES)


def _placement(settings: HfSettings, device: torch.device) -> dict[str, Any]:
    """Device arguments for loading; empty if the model is moved afterwards. Quantized
    models cannot be moved, and moving others takes their size in host memory."""
    if settings.device_map:
        _need("device_map", "accelerate", "accelerate")
        return {"device_map": settings.device_map}
    if settings.quantises:
        _need("quantised loading", "accelerate", "quantized")
        return {"device_map": {"": device}}
    if device.type != "cpu" and find_spec("accelerate") is not None:
        return {"device_map": {"": device}}
    return {}


def _quantisation(settings: HfSettings) -> Any:
    if settings.quantization:
        return dict(settings.quantization)
    name = "load_in_4bit" if settings.load_in_4bit else "load_in_8bit"
    _need(name, "bitsandbytes", "quantized")
    # The arithmetic is done in the type that the user names, as in lm-eval.
    known = {"bnb_4bit_compute_dtype": settings.dtype} if settings.load_in_4bit else {}
    exact = {} if settings.dtype == "auto" else known
    config: Any = transformers.BitsAndBytesConfig
    return config(**{name: True}, **exact)


def _need(feature: str, library: str, extra: str) -> None:
    if find_spec(library) is None:
        raise MissingExtraError(f"the hf model's {feature}", library, extra)


def _refuse_other_sizes(mismatched: Any, owners: str, fix: str) -> None:
    """Check that all weights have the sizes that the model needs. ``mismatched``:
    names, with the sizes in the checkpoint and in the model. ``owners``: what does not
    fit, in messages."""
    parts = [
        f"{name} is {tuple(found)} in the checkpoint and {tuple(needed)} in the model"
        for name, found, needed in sorted(mismatched)
    ]
    if parts:
        shown = _first_of(parts, "; ")
        raise ModelError(f"{owners} do not fit: {shown}\n  fix: {fix}")


def _first_of(names: list[str], separator: str = ", ") -> str:
    more = len(names) - MOST_SHOWN
    shown = separator.join(names[:MOST_SHOWN])
    return f"{shown}, and {more} more" if more > 0 else shown


def _adapt(model: Any, settings: HfSettings) -> None:
    """Add an adapter's layers to the model. They are not merged into its weights, as in
    lm-eval: merging in half precision would round differently."""
    _need("peft", "peft", "peft")
    try:
        with warnings.catch_warnings():
            # Warnings between the two libraries.
            warnings.simplefilter("ignore")
            takes_more = "load_config" in signature(model.load_adapter).parameters
            options = _NOT_RAISED if takes_more else {}
            found = model.load_adapter(path_of(settings.peft), **options)
    # They raise many kinds of exceptions, which all mean the same here.
    except Exception as error:
        raise ModelError(
            f"cannot load the adapter {settings.peft!r} into {settings.target!r}: "
            f"{first_line(error)}\n  fix: {_ADAPTER}"
        ) from error
    owner = f"the adapter {settings.peft!r}"
    for name, message in (
        ("missing_keys", "lacks weights"),
        ("unexpected_keys", f"has weights for which {settings.target!r} has no place"),
    ):
        if keys := sorted(getattr(found, name, ())):
            raise ModelError(f"{owner} {message}: {_first_of(keys)}\n  fix: {_ADAPTER}")
    mismatched = getattr(found, "mismatched_keys", ())
    _refuse_other_sizes(mismatched, f"{owner} and {settings.target!r}", _ADAPTER)


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
        "quantization": _shown_quantization(model),
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


def _shown_quantization(model: Any) -> dict[str, Any]:
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
