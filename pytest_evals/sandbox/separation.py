"""Whether tests can run in another process than the program."""

from __future__ import annotations

import ast

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


def needs_one_process(tests: str) -> bool:
    """Return whether tests need the program in their own interpreter.

    Decided by the tests alone, never by what a program does.
    """
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError, RecursionError):
        return False  # they fail either way
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef | ast.Await):
            return True
        if isinstance(node, ast.Name) and node.id in _NAMES:
            return True
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] in _MODULES for name in names):
            return True
    return False
