"""Whether the metrics of a module execute model output, and by what.

Programs of lighteval's LiveCodeBench, of ``evaluate.load("code_eval")`` and of
``run_code`` run in the sandbox. All other execution needs consent.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from pytest_evals.dialects.evaluate_library import CODE_EVAL
from pytest_evals.guests.lighteval.metrics.codegen import codegen_metrics
from pytest_evals.sandbox.session import run_code
from pytest_evals.sandbox.source_scan import execution
from pytest_evals.scorers.code_eval import CodeEval

_FILES = ("slr_bench",)
"""Files of lighteval (SLR-Bench) that execute model output by metrics of the Hub."""
_PACKAGES = {"site-packages", "dist-packages"}
_OWN = Path(__file__).resolve().parents[2]
_OTHERS = [Path(sysconfig.get_paths()["stdlib"]).resolve(), _OWN]


class CodeExecution(NamedTuple):
    """How a module executes model output.

    Args:
        itself: File, name and line of what executes it outside the sandbox; empty if
            nothing does.
        in_sandbox: Whether the sandbox does.
    """

    itself: str
    in_sandbox: bool


def code_execution(module: ModuleType, inputs: Collection[str]) -> CodeExecution:
    """Return how a module, and the user's modules that it imports, execute answers.

    Args:
        inputs: Names of its functions that make prompts.
    """
    itself, in_sandbox = "", False
    for one in _modules(module):
        file = Path(str(one.__file__))
        try:
            source = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        found = execution(source, inputs)
        if file.name.startswith(_FILES):
            found = found or "a metric of the Hub"
        if getattr(one, "UNSAFE_CODE", False):
            found = found or "UNSAFE_CODE"
        itself = itself or (found and f"{found} in {file.name}")
        in_sandbox = in_sandbox or any(map(_is_of_sandbox, vars(one).values()))
        in_sandbox = in_sandbox or (
            "evaluate" in source and any(name in source for name in CODE_EVAL)
        )
    return CodeExecution(itself, in_sandbox)


def _is_of_sandbox(value: Any) -> bool:
    return value is run_code or value is codegen_metrics or isinstance(value, CodeEval)


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """Yield a module and those of the user's files that its names are from."""
    pending, seen = [module], {module.__name__}
    while pending:
        one = pending.pop()
        yield one
        for value in vars(one).values():
            is_module = isinstance(value, ModuleType)
            name = value.__name__ if is_module else getattr(value, "__module__", "")
            home = sys.modules.get(str(name))
            if home is not None and home.__name__ not in seen and _is_users(home):
                seen.add(home.__name__)
                pending.append(home)


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if not file or not str(file).endswith(".py"):
        return False
    path = Path(file).resolve()
    others = any(map(path.is_relative_to, _OTHERS))
    return not others and _PACKAGES.isdisjoint(path.parts)
