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

_LIBRARY = "evaluate"
_EVALUATORS = "evaluate.evaluator"


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
