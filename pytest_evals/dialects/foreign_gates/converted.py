"""Suites from gate files: tasks, gates with the bounds of each project's rule, and the
command that runs them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.errors import EvalsError

_Values = Mapping[str, Any]
VLLM_RTOL = 0.08
"""``test_lm_eval_correctness.py`` of vLLM, without ``rtol`` in the file."""
ASCEND_RTOL = 0.05
"""vllm-ascend: ``numpy.isclose(value, round(measured, 4), rtol=0.05)``."""
RECOVERY = 0.95
"""llm-compressor, without ``recovery_threshold`` in the file."""
_ATOL = 1e-8
"""Of ``numpy.isclose``."""
_NO_TEXT = {
    "vllm-vlm": "images",
    "vllm-asr": "audio",
    "vllm-rm": "a reward model",
}
_FLAGS = {
    "max_model_len": "--max-model-len",
    "tensor_parallel_size": "--tensor-parallel-size",
    "dtype": "--dtype",
    "kv_cache_dtype": "--kv-cache-dtype",
    "tokenizer_mode": "--tokenizer-mode",
    "moe_backend": "--moe-backend",
    "quantization": "--quantization",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "trust_remote_code": "--trust-remote-code",
    "enforce_eager": "--enforce-eager",
    "enable_expert_parallel": "--enable-expert-parallel",
}
"""Keys of the files → options of ``vllm serve``."""
_NO_ANSWER = frozenset(
    {
        "batch_size",
        "cadence",
        "gpu",
        "hardware",
        "name",
        "nightly",
        "num_gpus",
        "runner",
    }
    | {"timeout_in_minutes", "required_gpu_arch", "backend", "model_type", "model"}
)
"""Keys that change no number."""


class UnconvertibleError(EvalsError):
    """A file, or a task of it, that has no equal form here."""


@dataclass(frozen=True, slots=True)
class ConvertedGate:
    """``origin``: the number and the rule of the file, for a comment."""

    entry: Mapping[str, Any]
    origin: str


@dataclass(slots=True)
class Converted:
    """A suite. ``left_out``: what of the file has no form here, with the reason."""

    tasks: list[Mapping[str, Any]] = field(default_factory=list)
    gates: list[ConvertedGate] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def one_sided(value: float, rtol: float) -> dict[str, float]:
    """``measured >= value * (1 - rtol)``."""
    return {"min": value * (1 - rtol)}


def close(value: float, rtol: float) -> dict[str, float]:
    """``numpy.isclose(value, round(measured, 4), rtol)``, whose scale is the measured
    number: ``|value - m| <= 1e-8 + rtol * |m|``."""
    low, high = (value - _ATOL) / (1 + rtol), (value + _ATOL) / (1 - rtol)
    half = 0.5e-4  # of the last digit that is left by the rounding
    return {
        "min": math.ceil(round(low * 1e4, 9)) / 1e4 - half,
        "max": math.floor(round(high * 1e4, 9)) / 1e4 + half,
    }


def recovery(share: float) -> float:
    """``round(compressed / base, 2) >= share``: half a point is given away."""
    return math.ceil(round(share * 100, 9)) / 100 - 0.005


def convert_vllm(values: _Values, place: str) -> Converted:
    """``.buildkite/lm-eval-harness/configs`` of vLLM, rule :func:`one_sided`."""
    rtol = float(values.get("rtol", VLLM_RTOL))
    what = f"vLLM, at most {rtol:.0%} below"
    return _lm_eval(values, place, lambda value: one_sided(value, rtol), what)


def convert_ascend(values: _Values, place: str) -> Converted:
    """``tests/e2e/models/configs`` of vllm-ascend, rule :func:`close`."""
    kind = str(values.get("model_type", values.get("model", "vllm")))
    if kind in _NO_TEXT:
        raise UnconvertibleError(f"the tasks need {_NO_TEXT[kind]}")
    given = {
        "apply_chat_template": True,
        "fewshot_as_multiturn": True,
        "max_model_len": 4096,
        **values,
        **(values.get("serve") or {}),
    }
    given.pop("serve", None)
    rtol = float(values.get("rtol", ASCEND_RTOL))
    what = f"vllm-ascend, numpy.isclose with rtol={rtol:g}: better fails too"
    return _lm_eval(given, place, lambda value: close(value, rtol), what)


def _lm_eval(values: _Values, place: str, bound: Any, what: str) -> Converted:
    found = Converted()
    for task in values["tasks"]:
        found.tasks.append(_task(task["name"], values))
        for metric in task["metrics"]:
            value = float(metric["value"])
            entry = {"task": task["name"], "metric": metric["name"], **bound(value)}
            found.gates.append(ConvertedGate(entry, f"{value:g}: {what}"))
    server = {k: v for k, v in values.items() if k in _FLAGS}
    environment = values.get("env_vars") or {}
    model = _server(str(values["model_name"]), server, environment)
    found.commands.append(_command(model, values, place))
    read = {"model_name", "tasks", "num_fewshot", "limit", "gen_kwargs", "rtol"}
    read |= {"apply_chat_template", "fewshot_as_multiturn", "env_vars", "serve"}
    found.left_out += _others(values, read | {*_FLAGS})
    return found


def convert_compressor(values: _Values, place: str) -> Converted:
    """The block ``lmeval`` of llm-compressor: recovery of the base model's value."""
    block = {
        "task": "gsm8k",
        "num_fewshot": 5,
        "limit": 1000,
        "recovery_threshold": RECOVERY,
        "max_model_len": 2048,
        "dtype": "bfloat16",
        **(values["lmeval"] or {}),
    }
    metrics = block.get("metrics") or {}
    threshold = block["recovery_threshold"]
    shares = (
        threshold if isinstance(threshold, dict) else dict.fromkeys(metrics, threshold)
    )
    if not shares:
        raise UnconvertibleError(
            "lmeval names no metric to compare\n"
            "  fix: add metrics: {'exact_match,strict-match': 0.7}"
        )
    found = Converted(tasks=[_task(block["task"], block)])
    for metric, share in shares.items():
        entry = {"task": block["task"], "metric": metric, "baseline": "base"}
        entry |= {"recovery": recovery(float(share))}
        what = f"llm-compressor, round(compressed/base, 2) >= {float(share):g}"
        found.gates.append(ConvertedGate(entry, what))
    server = {k: v for k, v in block.items() if k in _FLAGS}
    base = _server(str(values.get("model", "BASE")), server, {})
    tested = _server("FOLDER_OF_THE_COMPRESSED_MODEL", server, {})
    found.commands.append(_command(base, block, place, "--evals-save-baseline=base"))
    found.commands.append(_command(tested, block, place, "--evals-compare=base"))
    read = {"task", "num_fewshot", "limit", "recovery_threshold", "metrics"}
    read |= {"apply_chat_template", "fewshot_as_multiturn", "add_bos_token"}
    found.left_out += _others(block, read | {*_FLAGS})
    for metric, value in metrics.items():
        found.left_out.append(f"metrics: {metric}: {value}, which only warns")
    own = [key for key in values if key not in ("lmeval", "model", "cadence")]
    if own:
        found.left_out.append(f"{', '.join(own)}: how the compressed model is made")
    return found


def convert_perf_eval(values: _Values, place: str) -> Converted:
    """``workloads`` of vLLM's perf-eval, which has no thresholds."""
    found = Converted()
    server, evals = values["vllm"], values["lm_eval"]
    for task in evals.get("tasks") or ():
        found.tasks.append(_task(task["name"], task))
        if "model_args" in task:
            found.left_out.append(f"model_args of {task['name']}")
    words = shlex.split(str(server.get("serve_args") or ""))
    model = _server(str(server["model"]), {}, server.get("env") or {}, words)
    found.commands.append(_command(model, {}, place))
    found.left_out.append("gates: the file has no thresholds; add gates.yaml")
    for key in ("bfcl", "vllm_bench"):
        if key in values:
            found.left_out.append(f"{key}: another program")
    return found


CONVERTERS = {
    "vllm": convert_vllm,
    "vllm-ascend": convert_ascend,
    "llm-compressor": convert_compressor,
    "perf-eval": convert_perf_eval,
}
"""Name of a format → its converter: content and folder of the suite → the suite."""


def _task(name: str, values: _Values) -> dict[str, Any]:
    shots = values.get("num_fewshot")
    return {"task": name} | ({} if shots is None else {"num_fewshot": shots})


def _server(
    model: str,
    options: _Values,
    environment: _Values,
    words: Sequence[str] = (),
) -> str:
    """The spec of a vLLM server with these options."""
    variables = [f"{name}={shlex.quote(str(v))}" for name, v in environment.items()]
    given = shlex.join([*_options(options), *words])
    return " ".join([*variables, "vllm serve", shlex.quote(model), given]).strip()


def _options(options: _Values) -> Iterator[str]:
    for key, value in options.items():
        if value is True:
            yield _FLAGS[key]
        elif value is not None and value is not False:
            yield from (_FLAGS[key], str(value))


def _command(server: str, values: _Values, place: str, *more: str) -> str:
    chat = bool(values.get("apply_chat_template"))
    words = ["pytest", f"--model=serve:{server}{',api=chat' if chat else ''}"]
    if values.get("limit") is not None:
        words.append(f"--evals-limit={values['limit']}")
    if values.get("gen_kwargs"):
        words.append(f"--evals-gen-kwargs={values['gen_kwargs']}")
    if chat:
        words.append("--evals-apply-chat-template")
        if not values.get("fewshot_as_multiturn", True):
            words.append("--evals-fewshot-as-one-turn")
    return shlex.join([*words, *more, place])


def _others(values: _Values, read: set[str]) -> list[str]:
    """Keys that are not converted and may change a number."""
    others = sorted(str(key) for key in values if key not in read | _NO_ANSWER)
    return [f"{key}: no equal here" for key in others]
