"""The model and how it was prompted, in ``results.json``: lm-eval's fields (0.4.13,
``evaluator.py`` and ``loggers/evaluation_tracker.py``). Secrets of the spec are masked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from pytest_evals.core.cli_values import cli_value
from pytest_evals.core.metric import BOOTSTRAP_ITERS
from pytest_evals.core.result import RunResult
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError
from pytest_evals.masking.values import masked_text
from pytest_evals.models.registry import KINDS, parse_spec
from pytest_evals.models.spec import ModelSpec

_UNSAFE = re.compile(r'["<>:/|\\?*\[\]]+')
_SEEDS = {"random_seed": 0, "numpy_seed": 1234, "torch_seed": None}
"""The generators while ``process_docs`` runs; torch's is left alone."""


def config_of(result: RunResult) -> dict[str, Any]:
    """Return lm-eval's ``config``: the model and the options of the run."""
    spec, options, info = _spec(result.model), result.options, result.model_info
    given = model_arguments(result.model)
    dtype = info.get("dtype")
    return {
        "model": spec.kind,
        "model_args": given,
        "model_num_parameters": info.get("num_parameters"),
        "model_dtype": f"torch.{dtype}" if dtype and spec.kind == "hf" else dtype,
        "model_revision": info.get("revision") or "main",
        "model_sha": info.get("commit", ""),
        "batch_size": str(given.get("batch_size", "auto")),
        "batch_sizes": [],
        "device": info.get("device") or options.get("device"),
        "use_cache": None,
        "limit": options.get("limit"),
        "bootstrap_iters": options.get("bootstrap_iters", BOOTSTRAP_ITERS),
        "gen_kwargs": options.get("gen_kwargs") or {},
        **_SEEDS,
        "fewshot_seed": options.get("seed"),
    }


def model_arguments(model: str) -> dict[str, Any]:
    """lm-eval's ``model_args``: what the spec names, with numbers as numbers."""
    if not model or not (spec := _spec(model)).target:
        return {}
    first = KINDS[spec.kind].target_key if spec.kind in KINDS else "model"
    return {first: spec.target, **{k: cli_value(v) for k, v in spec.arguments.items()}}


def tokenizer_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """Special tokens and the context window; nothing for a model without a tokenizer,
    as in lm-eval."""
    if "eos_token" not in info:
        return {}
    facts: dict[str, Any] = {}
    for name in ("pad", "eos", "bos"):
        token, id_ = info.get(f"{name}_token") or (None, None)
        facts[f"tokenizer_{name}_token"] = [token, str(id_)]
    facts["eot_token_id"] = info["eos_token"][1]
    facts["max_length"] = info.get("max_length")
    return facts


def speech_of(result: RunResult) -> dict[str, Any]:
    """The model's name, the system instruction and the chat template."""
    spec, options, info = _spec(result.model), result.options, result.model_info
    name = spec.target or spec.kind
    instruction = str(options.get("system_instruction") or "") or None
    chat = bool(options.get("apply_chat_template"))
    template = str(info.get("chat_template") or "") if chat else ""
    return {
        "model_source": spec.kind if spec.target else "CUSTOM",
        "model_name": name,
        "model_name_sanitized": _UNSAFE.sub("__", name),
        "system_instruction": instruction,
        "system_instruction_sha": _sha(instruction),
        "fewshot_as_multiturn": options.get("fewshot_as_multiturn") if chat else None,
        "chat_template": template or None,
        "chat_template_sha": _sha(template),
    }


def _spec(model: str) -> ModelSpec:
    """Return the spec with masked secrets; a name without a kind has no target. Kinds
    of hooks are split at their commas."""
    shown = masked_text(model)
    try:
        return parse_spec(shown)
    except OptionError:
        kind, _, rest = shown.partition(":")
        target, *others = rest.split(",")
        pairs = (other.partition("=") for other in others)
        arguments = {name.strip(): value for name, _, value in pairs}
        return ModelSpec(kind=kind, target=target, arguments=arguments)


def judged_by(task: Task, judge: str) -> dict[str, str]:
    """The further models of a task: name → spec, or the name of what opens it."""
    return {
        name: masked_text(source or judge)
        if isinstance(source, str)
        else str(getattr(source, "__name__", source))
        for name, source in task.models.items()
    }


def _sha(text: str | None) -> str | None:
    raw = text.encode("utf-8", "surrogatepass") if text else b""
    return hashlib.sha256(raw).hexdigest() if raw else None
