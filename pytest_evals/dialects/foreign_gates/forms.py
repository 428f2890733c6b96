"""Legal forms of the same content, and keys whose values are of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evals.dialects.foreign_gates.suite import UnconvertibleError

_MAPPINGS = frozenset(
    {
        *("env", "env_vars", "eval", "lm_eval", "lmeval", "ready"),
        *("serve", "server", "vllm"),
    }
)
_LISTS = frozenset({"tasks"})
_VALUES = frozenset(
    {
        *("accuracy", "accuracy_threshold", "alpha", "beta", "command"),
        *("limit", "max_concurrency", "max_model_len", "max_tokens"),
        *("dtype", "metric_threshold", "tensor_parallel_size"),
        *("model_name", "num_fewshot", "num_questions", "num_samples", "rtol"),
        *("score_threshold", "sigma", "startup_max_wait_seconds", "task"),
        *("temperature", "tolerance", "value"),
    }
)


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
