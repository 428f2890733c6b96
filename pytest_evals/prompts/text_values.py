"""Templates that compute with text, such as ``{{ price * 2 }}`` with the cell ``4.90``.

Cells of CSV files and values of rows in YAML are text. Jinja does not refuse such
templates: ``+`` joins, ``*`` repeats, a comparison with a number is never true, and the
text ``false`` counts as true.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import TemplateSyntaxError, nodes
from jinja2.sandbox import SandboxedEnvironment

_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}
_COMPARED |= {"in": "in", "notin": "not in"}
_EQUAL = ("==", "!=", "in", "not in")
_FALSE = ("0", "0.0", "false", "no", "none", "null", "off", "~")
_NULLS = ("", "none", "null", "~")
_BOOLEANS = ("false", "no", "off", "on", "true", "yes")
_TYPE_TESTS = ("boolean", "false", "float", "integer", "none", "number", "true")


class _Use(NamedTuple):
    """An operation whose result differs for text."""

    sign: str  # the operator; if for a condition, is and a name for a test
    names: tuple[str, ...]  # names of values
    has_number: bool = False  # whether the other operand is a number or a boolean


class TextFault(NamedTuple):
    """Why the result of a template is misleading, and how to change it."""

    message: str
    fix: str


def text_fault(template: str, row: Mapping[str, Any]) -> TextFault | None:
    """Return the first operation of a template that treats text of a row as a number,
    a boolean or a null; else ``None``."""
    for use in _uses(template):
        values = [row.get(name) for name in use.names]
        if all(isinstance(one, str) for one in values):
            fault = _fault(use, use.names[0], [str(one) for one in values])
            if fault is not None:
                return fault
    return None


def number_fix(error: Exception, names: Iterable[str], row: Mapping[str, Any]) -> str:
    """Return the fix if the error is that a template computes with text, else an empty
    text. ``names``: the names that the template uses."""
    texts = [one for one in sorted(names) if _is_number(row.get(one))]
    if not isinstance(error, TypeError) or not texts:
        return ""
    listed = ", ".join(f"{{{{ {one}|float }}}}" for one in texts)
    return f"convert the text to a number: {listed}"


def _fault(use: _Use, name: str, values: Sequence[str]) -> TextFault | None:
    text = values[0].strip().casefold()
    is_number = all(map(_is_number, values))
    shown = f"{name!r} is the text {values[0]!r}"
    if use.sign == "if":
        fix = f"compare it with text: {{% if {name} == 'yes' %}}"
        return TextFault(f"{shown}, which is true", fix) if text in _FALSE else None
    if use.sign.startswith("is "):
        kind = use.sign.removeprefix("is ")
        looks = {"none": text in _NULLS}.get(kind, is_number)
        if not (text in _BOOLEANS if kind in ("boolean", "false", "true") else looks):
            return None
        fix = f"compare it with text: {{% if {name} == '' %}}"
        return TextFault(f"{shown}, so {use.sign!r} is never true", fix)
    if use.sign in _EQUAL and not use.has_number:
        return None  # texts are compared
    if not is_number and not (use.has_number and text in ("true", "false")):
        return None
    fix = f"{{{{ {name}|float }}}} to compute"
    if use.sign == "+":
        fix += f", {{{{ {' ~ '.join(use.names)} }}}} to join"
    return TextFault(f"{shown}, and {use.sign!r} needs a number", fix)


@lru_cache(maxsize=1024)
def _uses(template: str) -> Sequence[_Use]:
    if "{" not in template:
        return ()
    try:
        tree = SandboxedEnvironment().parse(template)
    except (TemplateSyntaxError, RecursionError):
        return ()  # reported when it is compiled
    return tuple(dict.fromkeys(_found(tree)))


def _found(tree: nodes.Template) -> Iterator[_Use]:
    for sum_ in tree.find_all((nodes.Add, nodes.Mul)):
        sign = "+" if isinstance(sum_, nodes.Add) else "*"
        yield from _use(sign, sum_.left, sum_.right)
    for compared in tree.find_all(nodes.Compare):
        for operand in compared.ops:
            yield from _use(_COMPARED[operand.op], compared.expr, operand.expr)
    for test in tree.find_all(nodes.Test):
        if test.name in _TYPE_TESTS and isinstance(test.node, nodes.Name):
            yield _Use(f"is {test.name}", (test.node.name,))
    tests: list[nodes.Node] = [one.node for one in tree.find_all(nodes.Not)]
    tests += [one.test for one in tree.find_all(nodes.If)]
    tests += [one.test for one in tree.find_all(nodes.CondExpr)]
    for condition in tests:
        for name in _names(condition):
            yield _Use("if", (name,))


def _use(sign: str, left: nodes.Expr, right: nodes.Expr) -> Iterator[_Use]:
    if isinstance(right, nodes.List | nodes.Tuple) and right.items:
        right = right.items[0]
    both = (left, right)
    names = tuple(one.name for one in both if isinstance(one, nodes.Name))
    numbers = [
        one
        for one in both
        if isinstance(one, nodes.Const) and isinstance(one.value, int | float)
    ]
    if names and len(names) + len(numbers) == len(both):
        yield _Use(sign, names, bool(numbers))


def _names(test: nodes.Node) -> Iterator[str]:
    """Yield the names that are tested as booleans."""
    if isinstance(test, nodes.Name):
        yield test.name
    elif isinstance(test, nodes.Not):
        yield from _names(test.node)
    elif isinstance(test, nodes.And | nodes.Or):
        yield from _names(test.left)
        yield from _names(test.right)


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False
