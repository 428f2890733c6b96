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
    ]
)
"""Tests that import these look at the program's process, or replace parts of it."""
_NAMES = frozenset({"__name__", "eval", "exec", "globals", "locals", "vars"})
_KINDS = (ast.AsyncFunctionDef, ast.Await)
_TEST_CASES = frozenset({"TestCase", "unittest.TestCase"})


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
        and not any(map(_looks_inside, ast.walk(tree)))
    )


def _looks_inside(node: ast.AST) -> bool:
    """Return whether a node needs the program in the tests' interpreter: asynchronous
    code, a class other than test cases, or a replacement by ``unittest.mock``."""
    if isinstance(node, ast.ClassDef):
        bases = {ast.unparse(base) for base in node.bases}
        return not bases or not bases <= _TEST_CASES
    name = getattr(node, "module", None) or getattr(node, "attr", "")
    names = {name, *(one.name for one in getattr(node, "names", ()) if one is not str)}
    return isinstance(node, _KINDS) or not names.isdisjoint({"mock", "unittest.mock"})


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
