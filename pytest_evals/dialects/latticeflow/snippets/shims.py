"""What snippets import from ``latticeflow``, where that package is not installed.

Only a snippet's own ``import`` statements see it: nothing called ``latticeflow`` enters
``sys.modules``, and an installed package is never hidden.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar

from pytest_evals.dialects.latticeflow.prompts import chat_output
from pytest_evals.dialects.latticeflow.prompts import message_types as parts
from pytest_evals.dialects.latticeflow.prompts.message_types import Part
from pytest_evals.dialects.latticeflow.prompts.output import (
    ModelResponse,
    SolverOutput,
    SolverTrace,
)
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.trace import Trace, TraceTurn
from pytest_evals.dialects.module_loader import Import, StandInImports
from pytest_evals.errors import did_you_mean

_PACKAGE = "latticeflow"
_PATHS = (f"{_PACKAGE}.core.dtypes", f"{_PACKAGE}.assessment.dtypes")
"""Where upstream has these names, now and before."""


class MessageRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"


class MessageStatus(StrEnum):
    """Whether a message is whole."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


class SystemTaskMetricEntry(Part):
    """A number of a system task, and how it came about."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"reason": None}


class SystemTaskOutput(Part):
    """All numbers of a system task."""


_NAMES: Mapping[str, Any] = {
    **{
        name: getattr(module, name)
        for module in (parts, chat_output)
        for name in module.__all__
        if name[0].isupper()
    },
    "MessageRole": MessageRole,
    "MessageStatus": MessageStatus,
    "ModelResponse": ModelResponse,
    "RawSample": dict[str, Any],
    "SampleScore": SampleScore,
    "SolverOutput": SolverOutput,
    "SolverTrace": SolverTrace,
    "SystemTaskMetricEntry": SystemTaskMetricEntry,
    "SystemTaskOutput": SystemTaskOutput,
    "Trace": Trace,
    "TraceTurn": TraceTurn,
}


def builtins_of_snippets() -> dict[str, Any]:
    """``__builtins__`` of a module whose imports see the stand-ins."""
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
    return StandInImports([_PACKAGE], names, _lacking, _elsewhere)


def _lacking(module: str, name: str) -> Any:
    hint = did_you_mean(name, list(_NAMES))
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _elsewhere(name: str) -> Any:
    """What is neither a module nor a name that there is."""
    module, _, last = name.rpartition(".")
    if module in _PATHS:
        hint = did_you_mean(last, list(_NAMES))
        raise ImportError(f"cannot import name {last!r} from {module!r}{hint}")
    hint = did_you_mean(name, list(_PATHS))
    raise ModuleNotFoundError(f"No module named {name!r}{hint}", name=name)
