"""Model kind ``hf``: Hugging Face models. Importing it does not import torch."""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec

from pytest_evals.core.model import Model, RequestTokenizer
from pytest_evals.errors import MissingExtraError
from pytest_evals.models.checkpoint import check_available
from pytest_evals.models.hf.settings import (
    HfSettings,
    check_hf,
    fingerprint,
    read_settings,
    why_unfit,
)
from pytest_evals.models.registry import ModelKind
from pytest_evals.models.spec import ModelSpec


def _check_ready(spec: ModelSpec) -> None:
    settings = _settings(spec)
    names = {settings.target: settings.revision, settings.tokenizer: ""}
    for name, revision in {**names, settings.peft: ""}.items():
        check_available(name, revision)


def _import_libraries(spec: ModelSpec) -> None:
    _settings(spec)
    _avoid_fragmentation()
    import pytest_evals.models.hf.model  # noqa: F401


def _open(spec: ModelSpec) -> Model:
    settings = _settings(spec)
    _avoid_fragmentation()
    from pytest_evals.models.hf.model import HfModel

    return HfModel(str(spec), settings)


def _open_tokenizer(spec: ModelSpec) -> RequestTokenizer:
    settings = _settings(spec)
    from pytest_evals.models.hf.llama_checkpoint import read_config
    from pytest_evals.models.tokens.loader import tokenizer_of

    return tokenizer_of(settings, read_config(settings))


def _avoid_fragmentation() -> None:
    """Let PyTorch extend its memory segments on NVIDIA GPUs, unless the user has
    configured its allocator: every batch has another shape. It reads this once."""
    name, old_name = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
    torch = version("torch")
    if name in os.environ or old_name in os.environ or "rocm" in torch:
        return
    is_new = tuple(map(int, torch.split(".")[:2])) >= (2, 9)
    os.environ[name if is_new else old_name] = "expandable_segments:True"


def _settings(spec: ModelSpec) -> HfSettings:
    settings = read_settings(spec)
    for library in ("torch", "transformers"):
        if find_spec(library) is None:
            raise MissingExtraError("the hf model", library, "hf")
    return settings


HF = ModelKind(
    name="hf",
    example="hf:PATH_OR_NAME",
    open=_open,
    check=check_hf,
    check_ready=_check_ready,
    import_libraries=_import_libraries,
    is_local=True,
    is_deterministic=True,
    why_unfit=why_unfit,
    fingerprint=lambda spec, hash_file: fingerprint(read_settings(spec), hash_file),
    open_tokenizer=_open_tokenizer,
    target_key="pretrained",
)
