"""What applications returned, as the page shows it: transcripts, trees of calls,
retrieved texts; all else is JSON.

Values are texts: numbers of browsers have 53 bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from pytest_evals.core.returned import (
    RETURNED,
    call_text,
    calls_of,
    compact,
    contexts_of,
    messages_of,
    text_of,
)
from pytest_evals.reports.escape import cut

_LINE = 200
"""Maximum characters of the line of a call."""
_OF_MESSAGES = ("role", "content", "images", "tool_calls", *RETURNED)
Shown = str | list[dict[str, Any]]


def returned_fields(values: Mapping[str, Any]) -> list[tuple[str, Shown]]:
    """Return the fields that an application has set in addition to an answer."""
    return [(name, _shown(name, values[name])) for name in RETURNED if values.get(name)]


def _shown(name: str, value: Any) -> Shown:
    """A field; as JSON if it has another form, in files of other programs."""
    try:
        return _READERS[name](value) if name in _READERS else indented(value)
    except (TypeError, ValueError, RecursionError):
        return indented(value)


def _calls(given: Any) -> Shown:
    calls = calls_of(given)
    ids = {compact(one["id"]) for one in calls if one.get("id") is not None}
    inner: dict[str, list[Mapping[str, Any]]] = {}
    for one in calls:
        parent = compact(one.get("parent"))
        inner.setdefault(parent if parent in ids else "", []).append(one)

    def tree(parent: str) -> list[dict[str, Any]]:
        return [
            {
                "line": cut(call_text(one), _LINE),
                "failed": bool(one.get("error")),
                "fields": [
                    (name, indented(value))
                    for name, value in one.items()
                    if name not in ("name", "id", "parent")
                ],
                "inner": tree(compact(one.get("id"))),
            }
            for one in inner.pop(parent, ())
        ]

    found = tree("")
    while inner:  # calls that name each other as parents
        found += tree(next(iter(inner)))
    return found


def _contexts(given: Any) -> Shown:
    return [
        {
            "about": ", ".join(
                f"{name} {text_of(value)}"
                for name, value in one.items()
                if name != "text"
            ),
            "text": one.get("text", ""),
        }
        for one in contexts_of(given)
    ]


def _messages(given: Any) -> Shown:
    return [
        {
            "role": one["role"],
            "text": "" if one.get("content") is None else text_of(one["content"]),
            "images": [
                {"name": str(name), "src": ""} for name in one.get("images") or ()
            ],
            "returned": returned_fields(
                {
                    **one,
                    "calls": one.get("tool_calls") or one.get("calls"),
                    "metadata": {k: v for k, v in one.items() if k not in _OF_MESSAGES},
                }
            ),
        }
        for one in messages_of(given)
    ]


_READERS: Mapping[str, Callable[[Any], Shown]] = {
    "calls": _calls,
    "contexts": _contexts,
    "messages": _messages,
}


def indented(value: Any) -> str:
    """A text as it is, other values as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, a lone surrogate
        return json.dumps(value, indent=2, ensure_ascii=False)
