"""Which project a gate file is from, by its keys, and legal forms of the same content.
Formats as of November 2026."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.dialects.foreign_gates.suite import UnconvertibleError

_Values = Mapping[Any, Any]


class GateFormat(NamedTuple):
    """A format of gate files. ``reason``: why it is not converted; empty if it is."""

    name: str
    owner: str
    matches: Callable[[_Values], bool]
    reason: str = ""


def _has(*keys: str) -> Callable[[_Values], bool]:
    return lambda values: all(key in values for key in keys)


def _is_ascend(values: _Values) -> bool:
    markers = ("runner", "hardware", "model_type", "serve")
    return _is_lm_eval(values) and any(key in values for key in markers)


def _is_lm_eval(values: _Values) -> bool:
    tasks = values.get("tasks")
    return (
        "model_name" in values
        and isinstance(tasks, list)
        and any(isinstance(one, dict) and "metrics" in one for one in tasks)
    )


def _is_trt(values: _Values) -> bool:
    listed = [one for one in values.values() if isinstance(one, list)]
    entries = [one for each in listed for one in each]
    others = [one for one in values.values() if not isinstance(one, list)]
    return (
        _all_have(entries, "accuracy", "wer", *_TRT_KEYS)
        and any("accuracy" in one or "wer" in one for one in entries)
        and not any(isinstance(one, dict | int | float) for one in others)
    )


_TRT_KEYS = ("dtype", "quant_algo", "kv_cache_quant_algo", "spec_dec_algo")
"""Keys of an entry without a reference."""


def _all_have(entries: Sequence[Any], *keys: str) -> bool:
    """Whether there are entries, and each is a mapping with one of the keys."""
    return bool(entries) and all(
        isinstance(one, dict) and any(key in one for key in keys) for one in entries
    )


def _is_hub(values: _Values) -> bool:
    tasks = values.get("tasks")
    return isinstance(tasks, list) and any(
        isinstance(one, dict)
        and ("field_spec" in one or ("evaluation_framework" in values and "id" in one))
        for one in tasks
    )


SGLANG = GateFormat("sglang", "SGLang", lambda _: False)
"""Found by ``sglang.is_sglang_test``: its files are Python."""
FORMATS = (
    SGLANG,
    GateFormat("vllm-ascend", "vllm-ascend", _is_ascend),
    GateFormat("vllm", "vLLM", _is_lm_eval),
    GateFormat(
        "vllm-server",
        "vLLM",
        lambda v: (
            "model_name" in v and ("accuracy_threshold" in v or "metric_threshold" in v)
        ),
    ),
    GateFormat(
        "vllm-mrcr",
        "vLLM",
        _has("model_name", "match_ratio_threshold"),
        "its long contexts are made by a program of vLLM's tests",
    ),
    GateFormat("llm-compressor", "llm-compressor", _has("lmeval")),
    GateFormat("perf-eval", "vLLM's perf-eval", _has("vllm", "lm_eval")),
    GateFormat(
        "vllm-ascend-nightly",
        "vllm-ascend",
        lambda v: isinstance(v.get("test_cases"), list) and "benchmarks" in str(v),
        "AISBench evaluates, whose tasks are not here",
    ),
    GateFormat(
        "tokenspeed",
        "TokenSpeed",
        lambda v: "tokenspeed" in str(v.get("api_version", "")),
    ),
    GateFormat("tensorrt-llm", "TensorRT-LLM", _is_trt),
    GateFormat(
        "tensorrt-llm-acceptance",
        "TensorRT-LLM",
        lambda v: _all_have([*v.values()], "min_al"),
        "it has acceptance lengths of speculative decoding, not scores of documents",
    ),
    GateFormat(
        "hub",
        "the Hugging Face Hub (eval.yaml)",
        _is_hub,
        "it describes tasks for inspect-ai, which has its own prompts and scorers; "
        "judge its logs by 'python -m pytest_evals judge'",
    ),
)


def format_of(values: object) -> GateFormat | None:
    """The format of a file's content; ``None`` if it is another one."""
    if not isinstance(values, dict):
        return None
    return next((one for one in FORMATS if one.matches(values)), None)


_MAPPINGS = (
    "env", "env_vars", "eval", "lm_eval", "lmeval", "ready", "serve", "server", "vllm",
)  # fmt: skip
_LISTS = ("tasks",)
_VALUES = (
    "accuracy", "accuracy_threshold", "alpha", "beta", "command", "dtype", "limit",
    "max_concurrency", "max_model_len", "max_tokens", "metric_threshold", "model_name",
    "num_fewshot", "num_questions", "num_samples", "rtol", "score_threshold", "sigma",
    "startup_max_wait_seconds", "task", "temperature", "tensor_parallel_size",
    "tolerance", "value",
)  # fmt: skip


def usual(content: Any) -> Any:
    """Return the content of a gate file without keys that only hold anchors, and
    without sections that have no value."""
    if isinstance(content, list):
        return [usual(one) for one in content]
    if not isinstance(content, dict):
        return content
    return {
        key: usual(value)
        for key, value in content.items()
        if not str(key).startswith(("x-", "."))
        and not (value is None and (key in _MAPPINGS or key in _LISTS))
    }


def check_forms(content: Any, place: str = "") -> None:
    """Check the kinds of values of keys that converters read. Raises UnconvertibleError
    if a value is of another kind."""
    if isinstance(content, list):
        for number, one in enumerate(content):
            check_forms(one, f"{place}[{number}]")
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        where = f"{place}.{key}".lstrip(".")
        for keys, kind, name in (
            (_MAPPINGS, dict, "a mapping"),
            (_LISTS, list, "a list"),
            (_VALUES, str | int | float, "one value"),
        ):
            if key in keys and value is not None and not isinstance(value, kind):
                raise UnconvertibleError(f"{where} is not {name}: {value!r:.60}")
        check_forms(value, where)
