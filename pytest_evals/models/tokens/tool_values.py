"""Values of arguments in tool calls that are not JSON: texts with the types of a tool's
parameters, and calls in Python's syntax, of which nothing is evaluated."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

ParameterTypes = Mapping[str, Mapping[str, Any]]
"""Name of a tool → name of a parameter → its JSON Schema."""

_NAMES = {"true": True, "false": False, "null": None}
"""JSON's names in Python's syntax."""


def parameter_types(tools: str) -> ParameterTypes:
    """The schemas of the parameters of tools.

    Args:
        tools: OpenAI's ``tools`` as JSON.
    """
    found = dict[str, Mapping[str, Any]]()
    for tool in json.loads(tools) if tools else ():
        function = tool.get("function") or {}
        parameters = function.get("parameters")
        properties = parameters.get("properties") if parameters else None
        if isinstance(properties, Mapping):
            found[str(function.get("name"))] = properties
    return found


def cast_text(text: str, schema: Any) -> Any:
    """The value of an argument that is written as text: text for a parameter of type
    ``string``, otherwise a JSON value, or ``True``, ``False`` or ``None``. Other text
    stays text."""
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    bare = text.strip()
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(bare, text)


def python_calls(text: str) -> list[dict[str, Any]]:
    """The calls in a list such as ``[f(a=1), g()]``: keyword arguments with literals.

    Raises:
        ValueError: It is something else.
    """
    try:
        listed = ast.parse(text, mode="eval").body
    except (SyntaxError, MemoryError):
        raise ValueError from None
    if not isinstance(listed, ast.List) or not listed.elts:
        raise ValueError
    return [_call(one) for one in listed.elts]


def _call(node: ast.expr) -> dict[str, Any]:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError
    arguments = dict[str, Any]()
    for one in node.keywords:
        if one.arg is None or one.arg in arguments:
            raise ValueError
        arguments[one.arg] = ast.literal_eval(_JsonNames().visit(one.value))
    return {"name": _name(node.func), "arguments": arguments}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if not isinstance(node, ast.Name):
        raise ValueError
    return node.id


class _JsonNames(ast.NodeTransformer):
    """Replaces ``true``, ``false`` and ``null`` by their values."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name of JSON."""
        return ast.Constant(_NAMES[node.id]) if node.id in _NAMES else node
