"""Other forms of the same content: lists of one, a mapping without its list, keys
without a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evals.dialects.foreign_gates.suite import UnconvertibleError

_MAPPINGS = frozenset(
    {
        *("env", "env_vars", "eval", "field_spec", "lm_eval", "lmeval", "ready"),
        *("serve", "server", "vllm"),
    }
)
_LISTS = frozenset({"scorers", "solvers", "tasks"})
_OF_TEXTS = frozenset({"choices", "metadata", "serve_args", "server_args"})
"""Lists of texts, also with one."""
_VALUES = frozenset(
    {
        *("accuracy", "accuracy_threshold", "alpha", "beta", "command", "config"),
        *("epochs", "limit", "max_concurrency", "max_model_len", "max_tokens"),
        *("dtype", "metric_threshold", "tensor_parallel_size"),
        *("model_name", "num_fewshot", "num_questions", "num_samples", "rtol"),
        *("score_threshold", "sigma", "split", "startup_max_wait_seconds", "task"),
        *("temperature", "tolerance", "value"),
    }
)


def usual(content: Any) -> Any:
    """Return the content of a gate file in the form that its project writes."""
    if isinstance(content, list):
        return [usual(one) for one in content]
    if not isinstance(content, dict):
        return content
    values = {
        key: usual(value)
        for key, value in content.items()
        if not str(key).startswith(("x-", "."))  # what anchors are on
    }
    found = {key: _usual(key, value) for key, value in values.items()}
    return {key: value for key, value in found.items() if not _is_absent(key, value)}


def _usual(key: object, value: Any) -> Any:
    if key in _LISTS and isinstance(value, dict):
        return [value]
    is_list = isinstance(value, list) and bool(value)
    if is_list and key in _MAPPINGS and all(isinstance(one, dict) for one in value):
        return {name: one for each in value for name, one in each.items()}
    if is_list and len(value) == 1 and key not in _OF_TEXTS:
        return value if isinstance(value[0], dict | list) else value[0]
    return value


def _is_absent(key: object, value: object) -> bool:
    return value is None and (key in _MAPPINGS or key in _LISTS)


def check_forms(content: Any, place: str = "") -> None:
    """Check the kinds of values of keys that converters read.

    Raises:
        UnconvertibleError: A value is of another kind.
    """
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
