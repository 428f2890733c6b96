"""Import Hugging Face's library ``evaluate`` without its evaluators.

The library imports them at once, and with them transformers and torch: nine seconds of
processor time and 400 MB, of which metrics use nothing (0.4.6). Here an evaluator is
imported when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from pytest_evals.scorers.code_eval import CodeEval

_LIBRARY = "evaluate"
_EVALUATORS = "evaluate.evaluator"
CODE_EVAL = ("code_eval", "evaluate-metric/code_eval")
"""Names of the metric that runs programs."""


def import_evaluate() -> ModuleType:
    """Return the library; if it was imported before, as it is."""
    if _LIBRARY in sys.modules:
        return sys.modules[_LIBRARY]
    sys.modules[_EVALUATORS] = _Evaluators(_EVALUATORS)
    try:
        library = importlib.import_module(_LIBRARY)
    finally:
        del sys.modules[_EVALUATORS]
    names = vars(library)
    for name in [one for one, value in names.items() if isinstance(value, _Evaluator)]:
        del names[name]
    names["__getattr__"] = _evaluator
    return library


def route_code_eval(library: Any) -> None:
    """Let ``evaluate.load("code_eval")`` return the metric that runs programs in the
    sandbox; the library's own runs them in a child process with the user's rights."""
    original = library.load
    if getattr(original, "is_routed", False):
        return

    def load(path: str, *arguments: Any, **named: Any) -> Any:
        if path in CODE_EVAL:
            return CodeEval()
        return original(path, *arguments, **named)

    vars(load)["is_routed"] = True
    library.load = load


def _evaluator(name: str) -> Any:
    """Return a name of the evaluators, as an attribute of the library."""
    if name.startswith("__"):
        raise AttributeError(name)
    module = importlib.import_module(_EVALUATORS)
    names = vars(sys.modules[_LIBRARY])
    names["evaluator"] = vars(module)["evaluator"]  # the import sets the module
    return getattr(module, name)


class _Evaluators(ModuleType):
    """Takes the place of the module of the evaluators while it is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Evaluator(name)


class _Evaluator:
    """A function of the evaluators, which calls the real one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _evaluator(self._name)(*arguments, **named)
