"""Loading of Hugging Face models: tokenizer, weights and metadata.

Messages of transformers are silenced during loading; relevant ones become errors.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.utils import logging as hub_logging
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import logging

from pytest_evals.errors import MissingExtraError, ModelError
from pytest_evals.models.engine.device_memory import is_out_of_memory, use_device
from pytest_evals.models.folders import is_local
from pytest_evals.models.hf.llama import Llama
from pytest_evals.models.hf.llama_checkpoint import open_llama, read_config
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.hf.weights import first_line, load_weights, origin, path_of

# Its functions have no annotations.
_logging: Any = logging
DEFAULT_LENGTH = 2048
HASHED_BYTES = 2**26
"""Local weights up to this size are identified by content, larger ones by name, size
and modification time: hashing takes one to three seconds per gigabyte, at each start.
The response store caches hashes and identifies all of them by content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in evaluation mode on its device, with tokenizer and settings.

    Args:
        model: A causal language model.
        tokenizer: Its tokenizer.
        settings: Its settings.
        max_length: Tokens of its context window.
        n_embeddings: Number of token ids that it knows.
        note: Warning about its weights; empty for none.
    """

    model: Any
    tokenizer: Any
    settings: HfSettings
    max_length: int
    n_embeddings: int
    note: str = ""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.model.device
        return device


def load(settings: HfSettings) -> LoadedModel:
    """Load a model.

    Raises:
        ModelError: It cannot be loaded, is not a causal language model, or some of its
            weights are missing from the checkpoint.
    """
    # The tokenizer warns whenever a process forks after it was used in threads, unless
    # the user has enabled threads explicitly.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    device = _device(settings)
    with _quiet(), _one_error(settings.target):
        simple = read_config(settings)
        config = simple or _config(settings)
        tokenizer = _load_tokenizer(settings, simple)
        model: Any = simple and open_llama(settings, simple, device)
        note = ""
        if model is None:
            config = _config(settings) if simple else config
            model, note = load_weights(settings, config, device)
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
    )


def load_tokenizer(settings: HfSettings) -> Any:
    """Load only the tokenizer.

    Raises:
        ModelError: It cannot be loaded.
    """
    with _quiet(), _one_error(settings.target):
        return _load_tokenizer(settings, read_config(settings))


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


def describe_tokenizer(tokenizer: Any, settings: HfSettings) -> Mapping[str, Any]:
    """Tokenizer metadata for results files: special tokens and the chat template."""
    template = getattr(tokenizer, "chat_template", None)
    return {
        "tokenizer": settings.tokenizer or settings.target,
        "add_bos_token": settings.add_bos_token,
        "bos_token": _token(tokenizer, "bos"),
        "eos_token": _token(tokenizer, "eos"),
        "pad_token": _token(tokenizer, "pad"),
        "chat_template": str(template) if template else "",
        "chat_template_sha": _sha(str(template)) if template else "",
        "chat_template_args": dict(settings.template_args),
        "think_end_token": settings.think_end_token,
    }


def device_name(device: torch.device) -> str:
    """Name of the GPU, or architecture of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.machine()


def _load_tokenizer(settings: HfSettings, simple: Any) -> Any:
    """The tokenizer. If its own files name its class, a ``simple`` config is enough."""
    source = origin(settings)
    if settings.tokenizer:
        source["pretrained_model_name_or_path"] = path_of(settings.tokenizer)
        source["revision"] = None
    if settings.add_bos_token is not None:
        source["add_bos_token"] = settings.add_bos_token
    if simple is not None and not settings.tokenizer:
        path = source["pretrained_model_name_or_path"]
        named = get_tokenizer_config(path, revision=source["revision"])
        if named.get("tokenizer_class") and "auto_map" not in named:
            source["config"] = simple
    return transformers.AutoTokenizer.from_pretrained(**source)


def _config(settings: HfSettings) -> Any:
    """The config of transformers.

    Raises:
        ModelError: The model is an encoder-decoder model.
    """
    config = transformers.AutoConfig.from_pretrained(**origin(settings))
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{settings.target!r} is an encoder-decoder model ({config.model_type}); "
            "the hf model takes decoder-only (causal) models"
        )
    return config


def _device(settings: HfSettings) -> torch.device:
    """The device to use; a GPU has an index.

    Raises:
        ModelError: It is not there.
    """
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
    bare ``IndexError`` on a CPU, and leaves a GPU unusable for the process.

    Raises:
        ModelError: The model has no such position or token.
    """
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


def _token(tokenizer: Any, name: str) -> list[Any]:
    return [
        getattr(tokenizer, f"{name}_token", None),
        getattr(tokenizer, f"{name}_token_id", None),
    ]


def weights_hash(target: str) -> str:
    """SHA-256 that changes when local weights change; empty for names on the Hub, which
    are identified by commit."""
    if not target or not is_local(target):
        return ""
    folder = Path(os.path.expanduser(target))
    endings = {".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".py"}
    files = sorted(p for p in folder.iterdir() if p.suffix in endings and p.is_file())
    by_content = sum(p.stat().st_size for p in files) <= HASHED_BYTES
    total = hashlib.sha256()
    for path in files:
        stat = path.stat()
        mark = f"{stat.st_size} {stat.st_mtime_ns}"
        if by_content:
            with path.open("rb") as stream:
                mark = hashlib.file_digest(stream, "sha256").hexdigest()
        total.update(f"{path.name} {mark}\n".encode())
    return total.hexdigest()


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence messages and progress bars of transformers and huggingface_hub (which
    reports each retry); restores the previous state."""
    level = _logging.get_verbosity()
    hub_level = hub_logging.get_verbosity()
    bars = _logging.is_progress_bar_enabled()
    _logging.set_verbosity_error()
    hub_logging.set_verbosity(ERROR)
    _logging.disable_progress_bar()
    try:
        yield
    finally:
        _logging.set_verbosity(level)
        hub_logging.set_verbosity(hub_level)
        if bars:
            _logging.enable_progress_bar()


@contextmanager
def _one_error(target: str) -> Iterator[None]:
    """Convert any exception of transformers to one error with cause and fix."""
    try:
        yield
    except (ModelError, MissingExtraError):
        raise
    # Libraries raise many kinds of exceptions, which all mean the same here.
    except Exception as error:  # noqa: BLE001
        text = first_line(error)
        raise ModelError(
            f"cannot load the model {target!r}: {text}{_reason(target, error)}"
            f"{_advice(target, error)}"
        ) from (error if text in str(error) else None)


def _reason(target: str, error: BaseException) -> str:
    """Root cause of a Hub error: transformers only reports a failed connection."""
    root = error
    while root.__cause__ or root.__context__:
        root = root.__cause__ or root.__context__ or root
    if is_local(target) or root is error:
        return ""
    return f" ({type(root).__name__}: {first_line(root)})"


def _advice(target: str, error: Exception) -> str:
    text = str(error)
    if "above report" in text:  # which is logged, and its weights are not in the error
        command = f"transformers.AutoModelForCausalLM.from_pretrained({target!r})"
        return f'\n  fix: see that report: python -c "import transformers; {command}"'
    if "trust_remote_code" in text:
        return "\n  fix: add trust_remote_code=true if you trust the code of this model"
    if is_out_of_memory(error):
        return "\n  fix: add dtype=bfloat16, or choose a device with more memory"
    if is_local(target):
        return "\n  fix: check config.json, the weights and the tokenizer in the folder"
    if "gated" in text or "401" in text or "403" in text:
        return "\n  fix: set HF_TOKEN to a token that may read this model"
    return "\n  fix: check the name on the Hub and the connection, or give a folder"
