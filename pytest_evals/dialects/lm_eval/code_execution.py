"""Whether a task executes model output only through the sandbox.

lm-eval's tasks execute programs in their own modules. Those of HumanEval and MBPP call
``evaluate.load("code_eval")``, which the sandbox runs; others call ``exec`` or start
processes, which only the user can allow.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_evals.dialects.evaluate_library import CODE_EVAL
from pytest_evals.sandbox.separation import imported_modules, used_names

_IMPORTS = frozenset(
    {
        *("__future__", "ast", "collections", "copy", "datasets", "evaluate"),
        *("functools", "itertools", "json", "logging", "math", "numpy", "random"),
        *("re", "statistics", "string", "textwrap", "typing"),
    }
)
"""Modules that execute no strings. ``evaluate`` does only in metrics that it loads."""
_NAMES = frozenset({"exec", "eval", "compile", "__import__", "globals", "getattr"})


def uses_sandbox_only(values: Any) -> bool:
    """Return whether the modules of a task's functions load ``code_eval`` and have no
    other means to execute a string.

    Args:
        values: The keys of the file, with functions in place of ``!function``.
    """
    files = {_file(value) for value in _functions(values)}
    trees = [_tree(file) for file in files]
    return any(map(_loads_code_eval, trees)) and all(map(_is_harmless, trees))


def _functions(values: Any) -> Iterator[Any]:
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            yield from _functions(value)
    elif callable(values):
        yield values


def _file(function: Any) -> str:
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    return str(getattr(module, "__file__", None) or "")


def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None


def _loaded(tree: ast.AST) -> Iterator[str | None]:
    """Yield the first argument of each call of ``load``; ``None`` if not a constant."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name == "load":
            first = node.args[0] if node.args else None
            yield str(first.value) if isinstance(first, ast.Constant) else None


def _loads_code_eval(tree: ast.AST | None) -> bool:
    return tree is not None and any(name in CODE_EVAL for name in _loaded(tree))


def _is_harmless(tree: ast.AST | None) -> bool:
    if tree is None or any(name not in CODE_EVAL for name in _loaded(tree)):
        return False
    return _NAMES.isdisjoint(used_names(tree)) and _IMPORTS.issuperset(
        imported_modules(tree)
    )
