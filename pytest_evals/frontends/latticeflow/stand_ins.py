"""What snippets import from ``latticeflow``, where that package is not installed.

Only a snippet's own ``import`` statements see it: nothing called ``latticeflow`` enters
``sys.modules``, and an installed package is never hidden.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar

from pytest_evals.errors import did_you_mean
from pytest_evals.prompts.latticeflow import parts
from pytest_evals.prompts.latticeflow.output import (
    ModelResponse,
    SolverOutput,
    SolverTrace,
)
from pytest_evals.prompts.latticeflow.parts import Part
from pytest_evals.prompts.latticeflow.scores import SampleScore
from pytest_evals.prompts.latticeflow.trace import Trace, TraceTurn

__all__ = ["builtins_of_snippets"]

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
    **{name: getattr(parts, name) for name in parts.__all__ if name[0].isupper()},
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
    return {**vars(builtins), "__import__": _import}


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    ours = level == 0 and name.partition(".")[0] == _PACKAGE
    if not ours or _is_installed():
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    known = _modules()
    if name not in known:
        hint = did_you_mean(name, list(_PATHS))
        raise ModuleNotFoundError(f"No module named {name!r}{hint}", name=name)
    return known[name] if fromlist else known[_PACKAGE]


def _is_installed() -> bool:
    if _PACKAGE in sys.modules:
        return sys.modules[_PACKAGE] is not None
    return importlib.util.find_spec(_PACKAGE) is not None


@lru_cache(maxsize=1)
def _modules() -> Mapping[str, ModuleType]:
    """Each package and module by its dotted name."""
    found: dict[str, ModuleType] = {}
    for path in _PATHS:
        words = path.split(".")
        for n in range(1, len(words) + 1):
            name = ".".join(words[:n])
            module = found.setdefault(name, ModuleType(name))
            if n > 1:
                setattr(found[".".join(words[: n - 1])], words[n - 1], module)
        vars(found[path]).update(_NAMES)
    return found
