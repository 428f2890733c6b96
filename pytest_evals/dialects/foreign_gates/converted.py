"""Suites from gate files: tasks, gates with the bounds of each project's rule, and the
command that runs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_evals.dialects.foreign_gates.servers import (
    convert_tokenspeed,
    convert_vllm_server,
)
from pytest_evals.dialects.foreign_gates.sglang import convert_sglang
from pytest_evals.dialects.foreign_gates.suite import (
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    around,
    command,
    expected,
    number,
    server_spec,
    words_of,
)
from pytest_evals.dialects.foreign_gates.tensorrt_llm import convert_trt

_Bound = Callable[[float], Mapping[str, Any]]
VLLM_RTOL = 0.08
"""``test_lm_eval_correctness.py`` of vLLM, without ``rtol`` in the file."""
ASCEND_RTOL = 0.05
"""vllm-ascend: ``numpy.isclose(value, round(measured, 4), rtol=0.05)``."""
RECOVERY = 0.95  # llm-compressor, without ``recovery_threshold`` in the file
_ATOL = 1e-8  # of ``numpy.isclose``
_NO_TEXT = {
    "vllm-vlm": "images",
    "vllm-asr": "audio",
    "vllm-rm": "a reward model",
    "hf-multimodal": "images",
}
"""Kinds of models whose tasks are not converted."""
_FLAGS = (
    "max_model_len", "tensor_parallel_size", "dtype", "kv_cache_dtype",
    "tokenizer_mode", "moe_backend", "quantization", "gpu_memory_utilization",
    "trust_remote_code", "enforce_eager", "enable_expert_parallel",
)  # fmt: skip
"""Keys of the files that are options of ``vllm serve``, with dashes there."""


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


def convert_vllm(values: Values, folder: str, _: str) -> Converted:
    """``.buildkite/lm-eval-harness/configs`` of vLLM, rule ``measured >= value * (1 -
    rtol)``."""
    _check_text(values.get("backend"))
    rtol = number("rtol", values.get("rtol", VLLM_RTOL))
    origin = f"vLLM, at most {rtol:.4g} of it below"
    limit = values.get("limit")
    n = limit if isinstance(limit, int) and not isinstance(limit, bool) else None
    return _lm_eval(
        values, folder, lambda value: expected(value, rtol, is_share=True, n=n), origin
    )


def convert_ascend(values: Values, folder: str, _: str) -> Converted:
    """``tests/e2e/models/configs`` of vllm-ascend, rule :func:`close`."""
    _check_text(values.get("model_type", values.get("model")))
    given = {
        "apply_chat_template": True,
        "fewshot_as_multiturn": True,
        "max_model_len": 4096,
        **values,
        **(values.get("serve") or {}),
    }
    given.pop("serve", None)
    rtol = number("rtol", values.get("rtol", ASCEND_RTOL))
    origin = f"vllm-ascend, numpy.isclose with rtol={rtol:g}: better fails too"

    def bound(value: float) -> dict[str, Any]:
        band = close(value, rtol)
        return around(value, low=band["min"], high=band["max"])

    return _lm_eval(given, folder, bound, origin)


def _check_text(kind: object) -> None:
    if needs := _NO_TEXT.get(str(kind)):
        raise UnconvertibleError(f"the tasks need {needs}")


def _lm_eval(values: Values, folder: str, bound: _Bound, origin: str) -> Converted:
    suite = Converted()
    for task in values["tasks"]:
        if not isinstance(task, Mapping) or not isinstance(task.get("name"), str):
            suite.left_out.append(f"the task {task!r}: it has no name")
            continue
        suite.gates += _gates_of(task, bound, origin, suite)
        suite.add_task(task["name"], {**values, **task}.get("num_fewshot"))
        unsupported = [
            key for key in task if key not in ("name", "metrics", "num_fewshot")
        ]
        suite.left_out += [
            f"{key} of {task['name']}: not supported" for key in unsupported
        ]
    if not suite.gates:
        raise UnconvertibleError("; ".join(suite.left_out))
    server = {k: v for k, v in values.items() if k in _FLAGS}
    environment = values.get("env_vars") or {}
    model = _server(str(values["model_name"]), server, environment)
    suite.commands.append(command(model, values, folder))
    read = {"model_name", "tasks", "num_fewshot", "limit", "gen_kwargs", "rtol"}
    read |= {"apply_chat_template", "fewshot_as_multiturn", "env_vars", "serve"}
    suite.list_others(values, read | {*_FLAGS})
    return suite


def _gates_of(
    task: Values, bound: _Bound, origin: str, suite: Converted
) -> Iterator[ConvertedGate]:
    """The gates of a task; metrics without a usable value are listed."""
    name, metrics = task["name"], task.get("metrics") or ()
    if not metrics:
        suite.left_out.append(f"the gate of {name}: it has no metrics")
    for metric in [metrics] if isinstance(metrics, Mapping) else metrics:
        if not isinstance(metric, Mapping) or metric.get("value") is None:
            suite.left_out.append(f"a metric of {name}: it has no value: {metric!r}")
            continue
        named = metric.get("name")
        try:
            value = number(f"{named} of {name}", metric["value"])
            keys = bound(value)
        except UnconvertibleError as error:
            suite.left_out.append(str(error))
            continue
        yield ConvertedGate(
            {"task": name, "metric": named, **keys}, f"{value:g}: {origin}"
        )


def convert_compressor(values: Values, folder: str, _: str) -> Converted:
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
    _check_text(block.get("model"))
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
    suite = Converted()
    suite.add_task(block["task"], block.get("num_fewshot"))
    for metric, share in shares.items():
        entry = {"task": block["task"], "metric": metric, "baseline": "base"}
        entry |= {"recovery": recovery(number(metric, share))}
        origin = f"llm-compressor, round(compressed/base, 2) >= {share}"
        suite.gates.append(ConvertedGate(entry, origin))
    server = {k: v for k, v in block.items() if k in _FLAGS}
    base = _server(str(values.get("model", "BASE")), server, {})
    tested = _server("FOLDER_OF_THE_COMPRESSED_MODEL", server, {})
    suite.commands.append(command(base, block, folder, "--evals-save-baseline=base"))
    suite.commands.append(command(tested, block, folder, "--evals-compare=base"))
    read = {"task", "num_fewshot", "limit", "recovery_threshold", "metrics"}
    read |= {"apply_chat_template", "fewshot_as_multiturn"}
    read |= {"add_bos_token"} if block.get("add_bos_token", True) is True else set()
    suite.list_others(block, read | {*_FLAGS})
    for metric, value in metrics.items():
        suite.left_out.append(f"metrics: {metric}: {value}, which only warns")
    unsupported = [key for key in values if key not in ("lmeval", "model", "cadence")]
    if unsupported:
        suite.left_out.append(
            f"{', '.join(unsupported)}: how the compressed model is made"
        )
    return suite


def convert_perf_eval(values: Values, folder: str, _: str) -> Converted:
    """``workloads`` of vLLM's perf-eval, which has no thresholds."""
    suite = Converted()
    server, evals = values["vllm"], values["lm_eval"]
    for task in evals.get("tasks") or ():
        suite.add_task(task["name"], task.get("num_fewshot"))
        if "model_args" in task:
            suite.left_out.append(f"model_args of {task['name']}")
    words = words_of(server.get("serve_args"))
    model = server_spec(str(server["model"]), words, server.get("env") or {})
    suite.commands.append(command(model, {}, folder))
    suite.left_out.append("gates: the file has no thresholds; add gates.yaml")
    if "model_args" in evals:
        suite.left_out.append("model_args of lm_eval: not supported")
    for key in ("bfcl", "vllm_bench"):
        if key in values:
            suite.left_out.append(f"{key}: another program")
    return suite


CONVERTERS = {
    "vllm": convert_vllm,
    "vllm-server": convert_vllm_server,
    "tensorrt-llm": convert_trt,
    "tokenspeed": convert_tokenspeed,
    "sglang": convert_sglang,
    "vllm-ascend": convert_ascend,
    "llm-compressor": convert_compressor,
    "perf-eval": convert_perf_eval,
}
"""Name of a format → its converter: content, folder of the suite, and name of the file
without its suffix → the suite."""


def _server(model: str, options: Values, environment: Values) -> str:
    words: list[str] = []
    for key, value in options.items():
        if value is not None and value is not False:
            flag = f"--{key.replace('_', '-')}"
            words += [flag] if value is True else [flag, str(value)]
    return server_spec(model, words, environment)
