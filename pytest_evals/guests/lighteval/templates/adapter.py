"""Adapters: map a row to the values that a template needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError

Adapter = Callable[[dict[str, Any]], Mapping[str, Any] | None] | Mapping[str, str]
"""A function of the row that may return ``None`` to skip it, or a mapping from the
template's value names to the row's columns."""
_REQUIRED = (
    "answer",
    "cause_effect",
    "choices",
    "continuations",
    "ctx_a",
    "gold_idx",
    "hypothesis",
    "premise",
    "question",
    "source_text",
    "target_text",
)
"""Values that must not be null; an instruction or a context may be."""
PromptFunction = Callable[[dict[str, Any], str], Doc | None]
"""Builds a document from a row and the name of the task."""


def prompt_function(
    adapter: Adapter, build: Callable[[Mapping[str, Any], str], Doc | None]
) -> PromptFunction:
    """Build a prompt function.

    Args:
        adapter: Returns the values that the template needs.
        build: Builds a document from these values and the name of the task; returns
            ``None`` to skip the row.
    """

    def prompt(line: dict[str, Any], task_name: str) -> Doc | None:
        values = _adapt(adapter, line)
        if values is None:
            return None
        for name in _REQUIRED:
            if name in values and values[name] is None:
                raise EvalsError(f"{name!r} must not be null")
        return build(values, task_name)

    return prompt


def _adapt(adapter: Adapter, row: dict[str, Any]) -> Mapping[str, Any] | None:
    if not isinstance(adapter, Mapping):
        return adapter(row)
    for name, column in adapter.items():
        if column not in row:
            columns = ", ".join(key for key in row if not key.startswith("__"))
            raise EvalsError(
                f"the row has no column {column!r} for {name!r}; its columns "
                f"are {columns}"
            )
    return {name: row[column] for name, column in adapter.items()}


def positions(given: Any) -> list[int]:
    """An index or several as a list."""
    return list(given) if isinstance(given, list | tuple) else [given]
