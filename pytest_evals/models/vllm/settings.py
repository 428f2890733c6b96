"""Arguments of ``vllm:`` specs. Standard library only: vLLM is not imported.

The model's own arguments are about the tokenizer and scoring; all others are engine
arguments of vLLM, whose names are read from its source.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_evals.core.request import Generate
from pytest_evals.errors import OptionError, did_you_mean
from pytest_evals.models.checkpoint import HashFile
from pytest_evals.models.engine.code_hash import engine_fingerprint, library_version
from pytest_evals.models.folders import lacks_image_processor
from pytest_evals.models.registry import TaskRequirements
from pytest_evals.models.spec import Arguments, ModelSpec, argument, readers_of
from pytest_evals.models.tokens.settings import ImageSettings

ARGUMENTS = Arguments("vllm")
NO_IMAGE_SCORES = (
    "vllm: models give no log-probabilities of a text after images\n  fix: use the "
    "hf: model, or run tasks with output_type generate_until only"
)
_NO_IMAGE_START = (
    "the vllm: model has add_bos_token, which vLLM does not apply to prompts with "
    "images\n  fix: leave add_bos_token out"
)
_ONE_ENGINE = (
    "one engine runs in this process; tensor_parallel_size=N and "
    "pipeline_parallel_size=N distribute a model over N GPUs"
)
_OWN_LOGPROBS = "the log-probabilities of the model's own distribution are scored"
REFUSED = {
    "batch_size": "vLLM forms its own batches; max_num_seqs=N limits them",
    "convert": "the model must generate text",
    "data_parallel_size": _ONE_ENGINE,
    "device": "select GPUs with CUDA_VISIBLE_DEVICES",
    "enable_lora": "merge the adapter into the model first",
    "logprobs_mode": _OWN_LOGPROBS,
    "lora_local_path": "merge the adapter into the model first",
    "max_batch_size": "use max_num_seqs",
    "max_gen_toks": "use --evals-gen-kwargs max_gen_toks=N",
    "max_length": "use max_model_len",
    "model": "the model is named after 'vllm:'",
    "peft": "merge the adapter into the model first",
    "pretrained": "the model is named after 'vllm:'",
    "replicas": _ONE_ENGINE,
    "runner": "the model must generate text",
    "skip_tokenizer_init": "stop strings need the tokenizer",
    "token": "set the environment variable HF_TOKEN",
    "truncation_side": "prompts are cut on the left",
}
"""Arguments that are not supported, with the alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """Settings of a model in vLLM."""

    target: str  # Folder or name on the Hub
    tokens: ImageSettings  # Settings of the tokenizer and of images
    reuse_prefix: bool = argument(Arguments.flag, False)
    """Whether continuations of several tokens are scored with vLLM's prefix cache,
    which depends on an internal switch of vLLM."""
    engine: Mapping[str, str] = field(default_factory=dict)  # Unparsed arguments


READERS = {**readers_of(ImageSettings), **readers_of(VllmSettings)}
"""The model's own arguments."""


def why_unfit(spec: ModelSpec, needs: TaskRequirements) -> str:
    """Why the model cannot run a task; empty if it can."""
    tokens = read_settings(spec).tokens
    if needs.images and not lacks_image_processor(tokens.target):
        if needs.output_type != Generate.kind:
            return NO_IMAGE_SCORES
        if tokens.add_bos_token is not None:
            return _NO_IMAGE_START
    return tokens.why_unfit("vllm", needs)


def check_vllm(spec: ModelSpec) -> None:
    """As :func:`read_settings`; a local path without a model is an error too."""
    read_settings(spec).tokens.check_folders()


def read_settings(spec: ModelSpec) -> VllmSettings:
    """The settings of a spec. Engine arguments are checked by name if vLLM is
    installed; their values are checked by vLLM when the model is opened. Raises
    ``OptionError`` if an argument is unknown or has an invalid value."""
    values, engine = {}, {}
    for name, value in spec.arguments.items():
        if name in READERS:
            values[name] = READERS[name](ARGUMENTS, name, value)
        else:
            _check_engine_name(name)
            engine[name] = value
    reuses = bool(values.pop("reuse_prefix", False))
    cache = "enable_prefix_caching"
    if reuses and cache in engine and not ARGUMENTS.flag(cache, engine[cache]):
        raise OptionError(
            "the vllm model's reuse_prefix needs the prefix cache, which "
            "enable_prefix_caching=false turns off"
        )
    tokens = ImageSettings(target=spec.target, **values)
    tokens.check("vllm")
    limit = "limit_mm_per_prompt"
    if "max_images" in values and not any(n.partition(".")[0] == limit for n in engine):
        engine[limit] = f'{{"image": {tokens.max_images}}}'
    engine |= {n: spec.arguments[n] for n in _PASSED_ON if n in values}
    return VllmSettings(
        target=spec.target, tokens=tokens, reuse_prefix=reuses, engine=engine
    )


@cache
def engine_arguments() -> tuple[str, ...]:
    """The names of vLLM's engine arguments: the fields of its class ``EngineArgs``,
    read from its source, since importing vLLM takes seconds. Empty if vLLM is not
    installed or has another structure."""
    package = find_spec("vllm")
    if package is None or package.origin is None:
        return ()
    source = Path(package.origin).parent / "engine" / "arg_utils.py"
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(
        one.target.id
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "EngineArgs"
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        if not one.target.id.startswith("_")
    )


def _check_engine_name(name: str) -> None:
    """Check the name of an engine argument; ``name.key`` sets a key of a JSON value."""
    known = engine_arguments()
    base = name.partition(".")[0]
    if base in REFUSED:
        hint = f": {REFUSED[base]}"
    elif not known or base in known:
        return
    else:
        near = did_you_mean(base, [*known, *READERS])
        hint = near or "; it takes vLLM's engine arguments, see 'vllm serve --help=all'"
    raise OptionError(f"the vllm model takes no argument {name!r}{hint}")


_PASSED_ON = ("revision", "trust_remote_code")
"""Those that the engine takes too; ``tokenizer`` is passed on as a path."""


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
