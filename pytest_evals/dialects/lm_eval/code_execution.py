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
from pytest_evals.sandbox.source_scan import imported_modules, used_names

_IMPORTS = frozenset((
    "__future__", "ast", "collections", "copy", "datasets", "evaluate", "functools",
    "itertools", "json", "logging", "math", "numpy", "random", "re", "statistics",
    "string", "textwrap", "typing",
))  # fmt: skip
"""Modules that execute no strings. ``evaluate`` does only in metrics that it loads."""
_NAMES = frozenset({"exec", "eval", "compile", "__import__", "globals", "getattr"})


def uses_sandbox_only(values: Any) -> bool:
    """Return whether the modules of a task's functions load ``code_eval`` and have no
    other means to execute a string. ``values``: the keys of the file, with functions in
    place of ``!function``."""
    modules = (
        sys.modules.get(getattr(f, "__module__", "")) for f in _functions(values)
    )
    files = {str(getattr(one, "__file__", None) or "") for one in modules}
    try:
        trees = [ast.parse(Path(file).read_text(encoding="utf-8")) for file in files]
    except (OSError, ValueError, SyntaxError):
        return False  # unknown, so consent is needed
    loaded = [name for tree in trees for name in _loaded(tree)]
    return (
        bool(loaded)
        and all(name in CODE_EVAL for name in loaded)
        and all(_NAMES.isdisjoint(used_names(tree)) for tree in trees)
        and all(_IMPORTS.issuperset(imported_modules(tree)) for tree in trees)
    )


def _functions(values: Any) -> Iterator[Any]:
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            yield from _functions(value)
    elif callable(values):
        yield values


def _loaded(tree: ast.AST) -> Iterator[str | None]:
    """Yield the first argument of each call of ``load``; ``None`` if not a constant."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name == "load":
            first = node.args[0] if node.args else None
            yield str(first.value) if isinstance(first, ast.Constant) else None
