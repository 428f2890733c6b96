"""Descriptions of tools as servers take them: OpenAI's ``tools``.

A description may also be that of a function alone, with the type names of the Berkeley
Function Calling Leaderboard (``dict``, ``float``, ``tuple``, ``any``). Dots in names
become underscores, since servers accept no dots; scorers treat them as equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.data.calls import FieldError
from pytest_evals.errors import DocumentError, Place
from pytest_evals.prompts.fields import Field, Row, bind_value

_TYPES = {
    "dict": "object",
    "HashMap": "object",
    "float": "number",
    "tuple": "array",
    "list": "array",
    "any": "string",
}


def tools_reader(given: Any, place: Place) -> Callable[[Row], str]:
    """Return a function that returns the tools of a row as JSON, see `tools_text`.
    ``given``: a list of tools; or the name of a column with one, or a template. Raises
    DocumentError if the list or the template is invalid; the function raises it for a
    row without such a list."""
    if not isinstance(given, str):
        fixed = tools_text(given)
        return lambda row: fixed
    spec = f"{{{{ {given} }}}}" if given.isidentifier() else given
    read = bind_value(Field(key="tools", spec=spec, place=place))

    def tools(row: Row) -> str:
        try:
            found = read(row)
            if found in (None, "None"):
                fix = "write [] for a row without tools"
                raise FieldError("tools is null", place, fix)
            return tools_text(found)
        except FieldError:
            raise
        except DocumentError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            raise FieldError(message, place, fix) from None

    return tools


def tools_text(given: Any) -> str:
    """Return tools as JSON; empty without any. Raises DocumentError if they are not a
    list of descriptions with names."""
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
    if not isinstance(found.get("parameters") or {}, Mapping):
        raise _no_tools(given)
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
