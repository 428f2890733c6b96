"""Descriptions of tools as servers take them: OpenAI's ``tools``.

A description may also be that of a function alone, with the type names of the Berkeley
Function Calling Leaderboard (``dict``, ``float``, ``tuple``, ``any``). Dots in names
become underscores, since servers accept no dots; scorers treat them as equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_evals.errors import DocumentError

_TYPES = {
    "dict": "object",
    "HashMap": "object",
    "float": "number",
    "tuple": "array",
    "list": "array",
    "any": "string",
}


def tools_text(given: Any) -> str:
    """Return tools as JSON; empty without any.

    Raises:
        DocumentError: They are not a list of descriptions with names.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else []
        except ValueError:
            raise _no_tools(given) from None
    if isinstance(given, Mapping):
        given = [given]
    if given is None or given == []:
        return ""
    if not isinstance(given, list | tuple):
        raise _no_tools(given)
    return json.dumps([_tool(one) for one in given], ensure_ascii=False)


def _tool(given: Any) -> Any:
    if not isinstance(given, Mapping):
        raise _no_tools(given)
    function = given.get("function") if given.get("type") == "function" else given
    if given.get("type") not in (None, "function"):
        return given  # a tool of the server itself
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise _no_tools(given)
    found = {**function, "name": function["name"].replace(".", "_")}
    if "parameters" in found:
        found["parameters"] = _schema(found["parameters"])
    return {"type": "function", "function": found}


def _schema(given: Any) -> Any:
    if isinstance(given, list):
        return [*map(_schema, given)]
    if not isinstance(given, Mapping):
        return given
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == "properties" and isinstance(value, Mapping):
            found[key] = {name: _schema(one) for name, one in value.items()}
        elif key == "type" and isinstance(value, str):
            found[key] = _TYPES.get(value, value)
        elif key in ("default", "enum", "const", "examples"):
            found[key] = value
        else:
            found[key] = _schema(value)
    return found


def _no_tools(given: Any) -> DocumentError:
    return DocumentError(
        f"tools is not a list of tools: {json.dumps(given, default=repr)[:80]}\n"
        '  fix: [{"type": "function", "function": {"name": "pay", "parameters": {…}}}]'
    )
