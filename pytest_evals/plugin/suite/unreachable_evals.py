"""Evals of a Python module that pytest cannot collect: a later definition replaces
them, or they are defined in a function. Their gates would be lost."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.dialects.native.python import DEFINED, DefinedEval, Eval
from pytest_evals.dialects.native.python import eval as decorator
from pytest_evals.errors import Place, Problem

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def replaced_evals(names: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each eval of a module that nothing refers to any more."""
    for one in names.get(DEFINED, ()):
        if one.eval() is not None:
            continue
        current = names.get(one.function)
        text = f"no name of the module refers to the eval {one.name!r}"
        if isinstance(current, Eval):
            text = f"the eval {one.name!r} is replaced by the one at {current.place}"
        fix = "give each eval of a module a function with another name"
        yield Problem(f"{text}, so that it is not collected", one.place, fix)


def unnamed_evals(names: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each eval that exists, but is not a name of its module. Those
    in a class that pytest collects are reported with the class."""
    known = {id(value) for value in names.values()}
    for name, value in names.items():
        if isinstance(value, type) and name.startswith("Test"):
            known |= {id(one) for one in vars(value).values()}
    made: list[DefinedEval] = names.get(DEFINED, [])
    for one in made:
        if (existing := one.eval()) is not None and id(existing) not in known:
            text = f"the eval {one.name!r} is not a name of its module, so that pytest "
            fix = "assign it to a name at the top of the module"
            yield Problem(text + "does not collect it", one.place, fix)


def nested_evals(path: Path, names: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each eval that a function defines and does not use."""
    for outer in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(outer, _Function):
            continue
        used = {*_used(outer)}
        for inner in (one for part in outer.body for one in _functions(part)):
            if inner.name in used or not any(
                _is_eval(one, names) for one in inner.decorator_list
            ):
                continue
            text = f"the eval {inner.name!r} is defined in the function "
            text += f"{outer.name!r} at {Place(path, outer.lineno)}, so that pytest "
            fix = "define it at the top of the module"
            yield Problem(text + "does not collect it", Place(path, inner.lineno), fix)


def _functions(part: ast.AST) -> Iterator[_Function]:
    """Yield the functions in a statement, but not those within them."""
    if isinstance(part, _Function):
        yield part
        return
    for child in ast.iter_child_nodes(part):
        yield from _functions(child)


def _used(outer: _Function) -> Iterator[str]:
    """Yield the names that a function reads, without decorators such as
    ``@bot.score``."""
    parts: list[ast.AST] = [*outer.body]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id
        elif isinstance(part, ast.Global):
            yield from part.names
        inner = part.decorator_list if isinstance(part, _Function) else []
        parts += [one for one in ast.iter_child_nodes(part) if one not in inner]


def _is_eval(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether a decorator is ours; a name that the function imports counts by name."""
    node = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = names.get(node.value.id)
        return node.attr == "eval" and getattr(module, "eval", decorator) is decorator
    return isinstance(node, ast.Name) and names.get(node.id) is decorator
