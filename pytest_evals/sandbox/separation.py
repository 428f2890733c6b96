"""Whether tests can run in another process than the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_MODULES = frozenset(
    [
        "asyncio",
        "contextlib",
        "inspect",
        "io",
        "multiprocessing",
        "pytest",
        "subprocess",
        "sys",
        "threading",
        "unittest",
    ]
)
"""Tests that import these look at the program's process, or replace parts of it."""
_NAMES = frozenset({"__name__", "eval", "exec", "globals", "locals", "vars"})
_KINDS = (ast.ClassDef, ast.AsyncFunctionDef, ast.Await)


def needs_one_process(tests: str) -> bool:
    """Return whether tests need the program in their own interpreter.

    Decided by the tests alone, never by what a program does.
    """
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError, RecursionError):
        return False  # they fail either way
    return not (
        _NAMES.isdisjoint(used_names(tree))
        and _MODULES.isdisjoint(imported_modules(tree))
        and not any(isinstance(node, _KINDS) for node in ast.walk(tree))
    )


def used_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names in the code."""
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the top-level modules that the code imports; empty for relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else str(node.module).partition(".")[0]
