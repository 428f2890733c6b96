"""From a row to the values that a template wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError

Adapter = Callable[[dict[str, Any]], Mapping[str, Any] | None] | Mapping[str, str]
"""A function of the row, which may give ``None`` to skip it; or the template's name of
a value → the row's."""
_NEEDED = (
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
"""Values that are never null; an instruction or a context may be."""
PromptFunction = Callable[[dict[str, Any], str], Doc | None]
"""Row and name of the task to a document."""


def prompt_function(
    adapter: Adapter, build: Callable[[Mapping[str, Any], str], Doc | None]
) -> PromptFunction:
    """What makes documents of rows.

    Args:
        adapter: Gives the values that the template wants.
        build: Values and name of the task to the document, or ``None`` to skip it.
    """

    def prompt(line: dict[str, Any], task_name: str) -> Doc | None:
        given = _adapted(adapter, line)
        if given is None:
            return None
        for name in _NEEDED:
            if name in given and given[name] is None:
                raise EvalsError(f"{name!r} is null")
        return build(given, task_name)

    return prompt


def _adapted(adapter: Adapter, row: dict[str, Any]) -> Mapping[str, Any] | None:
    """The values, or ``None`` for a row that is skipped.

    Raises:
        EvalsError: The row lacks one that the adapter names.
    """
    if not isinstance(adapter, Mapping):
        return adapter(row)
    for name, column in adapter.items():
        if column not in row:
            columns = ", ".join(key for key in row if not key.startswith("__"))
            raise EvalsError(
                f"the row has no column {column!r} for {name!r}; it has {columns}"
            )
    return {name: row[column] for name, column in adapter.items()}


def positions(given: Any) -> list[int]:
    """One position or several, as a list."""
    return list(given) if isinstance(given, list | tuple) else [given]
