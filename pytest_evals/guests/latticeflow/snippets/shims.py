"""Provides the names that snippets import from ``latticeflow`` if the package is
missing.

Only ``import`` statements of snippets see them: ``sys.modules`` is not modified, and an
installed package takes precedence.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from pytest_evals.dialects.module_loader import Import, StandInImports
from pytest_evals.errors import did_you_mean
from pytest_evals.guests.latticeflow.prompts import items, output, trace
from pytest_evals.guests.latticeflow.prompts.output import SampleScore

_PACKAGE = "latticeflow"
_PATHS = (f"{_PACKAGE}.core.dtypes", f"{_PACKAGE}.assessment.dtypes")
"""Modules that contain these names in current and earlier versions."""


class MessageRole(StrEnum):
    """Role of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"


class MessageStatus(StrEnum):
    """Status of a message."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


SystemTaskMetricEntry = items.part_kind("SystemTaskMetricEntry", __name__, reason=None)
SystemTaskOutput = items.part_kind("SystemTaskOutput", __name__)
_NAMES: Mapping[str, Any] = {
    **{name: getattr(items, name) for name in items.PART_KINDS},
    "ChatCompletionModelOutput": output.ChatCompletionModelOutput,
    "ChatCompletionModelOutputChoice": output.ChatCompletionModelOutputChoice,
    "ChatCompletionOutputMessage": output.ChatCompletionOutputMessage,
    "MessageRole": MessageRole,
    "MessageStatus": MessageStatus,
    "ModelResponse": output.ModelResponse,
    "OutputText": output.OutputText,
    "RawSample": dict[str, Any],
    "SampleScore": SampleScore,
    "SolverOutput": output.SolverOutput,
    "SolverTrace": output.SolverTrace,
    "SystemTaskMetricEntry": SystemTaskMetricEntry,
    "SystemTaskOutput": SystemTaskOutput,
    "Trace": trace.Trace,
    "TraceTurn": trace.TraceTurn,
}


def builtins_of_snippets() -> dict[str, Any]:
    """Return ``__builtins__`` of a module whose imports use the shims."""
    imports: Import = builtins.__import__ if _is_installed() else _imports()
    return {**vars(builtins), "__import__": imports}


def _is_installed() -> bool:
    if _PACKAGE in sys.modules:
        return sys.modules[_PACKAGE] is not None
    return importlib.util.find_spec(_PACKAGE) is not None


@lru_cache(maxsize=1)
def _imports() -> StandInImports:
    names: dict[str, Mapping[str, Any]] = {}
    for path in _PATHS:
        words = path.split(".")
        for n in range(1, len(words)):
            names.setdefault(".".join(words[:n]), {})
        names[path] = _NAMES
    return StandInImports([_PACKAGE], names, _missing_attribute, _missing_import)


def _missing_attribute(module: str, name: str) -> Any:
    hint = did_you_mean(name, list(_NAMES))
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _missing_import(name: str) -> Any:
    """Raise for an unknown module or name."""
    module, _, last = name.rpartition(".")
    if module in _PATHS:
        hint = did_you_mean(last, list(_NAMES))
        raise ImportError(f"cannot import name {last!r} from {module!r}{hint}")
    hint = did_you_mean(name, list(_PATHS))
    raise ModuleNotFoundError(f"No module named {name!r}{hint}", name=name)
