"""Fingerprint of a model in vLLM: everything that affects its outputs. vLLM is not
imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from typing import Any

from pytest_evals.models.checkpoint import HashFile
from pytest_evals.models.engine.code_hash import engine_fingerprint, library_version
from pytest_evals.models.vllm.settings import VllmSettings

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


def fingerprint(
    settings: VllmSettings, hash_file: HashFile
) -> Mapping[str, Any] | None:
    """JSON values that are equal for models with equal outputs; ``None`` if the model's
    files are unknown. ``hash_file``: path → hash of the file's content."""
    shared = engine_fingerprint("vllm", settings.tokens, hash_file)
    if shared is None:
        return None
    return {
        **shared,
        "reuse_prefix": settings.reuse_prefix,
        "engine_arguments": {
            name: value
            for name, value in sorted(settings.engine.items())
            if name not in _WITHOUT_EFFECT
        },
        "environment": environment(),
        "libraries": {**shared["libraries"], "vllm": vllm_version()},
    }


def environment() -> dict[str, str]:
    """The environment variables that select kernels, such as batch-invariant ones."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


@cache
def vllm_version() -> str:
    """vLLM's version; its wheels have several names."""
    names = packages_distributions().get("vllm", ["vllm"])
    return " ".join(f"{name} {library_version(name)}" for name in sorted({*names}))
