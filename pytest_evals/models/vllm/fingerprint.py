"""Fingerprint of a model in vLLM: everything that affects its outputs. vLLM is not
imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from pytest_evals.models.engine.code_hash import code_hash
from pytest_evals.models.hf.fingerprint import LIBRARIES, provenance
from pytest_evals.models.spec import ModelSpec
from pytest_evals.models.vllm.settings import VllmSettings, read_settings

_WITHOUT_EFFECT = frozenset(
    {
        "aggregate_engine_logging",
        "disable_log_stats",
        "download_dir",
        "gpu_memory_utilization",
        "hf_token",
        "kv_cache_memory_bytes",
        "log_config_file",
        "log_level",
        "master_addr",
        "master_port",
        "max_parallel_loading_workers",
        "revision",
        "tokenizer",
        "use_tqdm_on_load",
    }
)
"""Engine arguments that are part of the fingerprint in another form or do not affect
outputs. Batch limits and parallelism do, in the last digits."""
_VARIABLES = (
    "VLLM_ATTENTION_BACKEND",
    "VLLM_BATCH_INVARIANT",
    "VLLM_CPU_SGL_KERNEL",
    "VLLM_FLOAT32_MATMUL_PRECISION",
    "VLLM_ROCM_USE_AITER",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_V2_MODEL_RUNNER",
)
"""Environment variables that select vLLM's kernels. It sets others on its own."""
_TOKENIZATION = (
    "add_bos_token",
    "chat_template_args",
    "enable_thinking",
    "prefix_token_id",
    "think_end_token",
)


def vllm_fingerprint(
    spec: ModelSpec, hash_file: Callable[[Path], str]
) -> Mapping[str, Any] | None:
    """Fingerprint of a spec: equal for models with equal outputs.

    Returns:
        JSON values; ``None`` if the model's files are unknown.

    Raises:
        OptionError: The spec has a mistake.
    """
    return fingerprint(read_settings(spec), hash_file)


def fingerprint(
    settings: VllmSettings, hash_file: Callable[[Path], str]
) -> Mapping[str, Any] | None:
    """Fingerprint of settings; see :func:`vllm_fingerprint`."""
    hf = settings.hf
    model = provenance(settings.target, hf.revision, hash_file)
    tokenizer: Mapping[str, Any] | None = {}
    if hf.tokenizer:
        tokenizer = provenance(hf.tokenizer, "", hash_file)
    if model is None or tokenizer is None:
        return None
    names = {field.name for field in fields(hf)} & {*_TOKENIZATION}
    return {
        "kind": "vllm",
        "model": model,
        "tokenizer": tokenizer,
        **{name: _plain(getattr(hf, name)) for name in sorted(names)},
        "reuse_prefix": settings.reuse_prefix,
        "engine_arguments": {
            name: value
            for name, value in sorted(settings.engine.items())
            if name not in _WITHOUT_EFFECT
        },
        "environment": environment(),
        "libraries": {
            **{name: _version(name) for name in LIBRARIES},
            "vllm": vllm_version(),
        },
        "engine": code_hash("pytest_evals.models.vllm.model"),
    }


def environment() -> dict[str, str]:
    """The environment variables that select kernels, such as batch-invariant ones."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


@cache
def vllm_version() -> str:
    """vLLM's version; its wheels have several names."""
    names = packages_distributions().get("vllm", ["vllm"])
    return " ".join(f"{name} {_version(name)}" for name in sorted({*names}))


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
