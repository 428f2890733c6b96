"""Return values of applications: a text, a response, or a mapping with its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evals.core.request import Response
from pytest_evals.core.response_contract import described
from pytest_evals.core.returned import messages_of, text_of
from pytest_evals.errors import DocumentError, suggestion

FIELDS = (
    *("text", "data", "calls", "contexts", "messages", "steps", "usage", "cost"),
    *("latency_s", "metadata", "error"),
)
"""Keys of a mapping: the fields of a response that an application may set."""
COUNTS = {
    "prompt_tokens": "n_prompt_tokens",
    "input_tokens": "n_prompt_tokens",
    "completion_tokens": "n_tokens",
    "output_tokens": "n_tokens",
}
"""Name in ``usage`` → field of a response."""


def response_in(value: object) -> Response:
    """Return the response in a return value.

    A mapping without ``text`` answers with the last message of the assistant, else with
    its ``data`` as JSON, else with an empty text.

    Raises:
        DocumentError: It is of another type, or a mapping with other keys.
    """
    if isinstance(value, str):
        return Response(text=str(value), finish="stop")
    if isinstance(value, Response):
        return value
    if not isinstance(value, Mapping):
        raise DocumentError(
            f"{described(value)}\n  fix: return a str, a dict or a Response"
        )
    return Response(**_fields(value))


def _fields(value: Mapping[Any, Any]) -> dict[str, Any]:
    fields = {name: one for name, one in value.items() if one is not None}
    for name in fields:
        if name not in FIELDS:
            raise DocumentError(
                f"a dict with the key {name!r}{suggestion(str(name), FIELDS)}\n"
                f"  fix: use {', '.join(FIELDS)}; put other values under metadata"
            )
    if not fields:
        raise DocumentError('an empty dict\n  fix: return {"text": "…"}')
    if "error" not in fields:
        fields.setdefault("text", _text(fields))
        fields["finish"] = "stop"
    if isinstance(usage := fields.get("usage"), Mapping):
        for name, field in COUNTS.items():
            if name in usage:
                fields[field] = usage[name]
    return fields


def _text(fields: Mapping[str, Any]) -> str:
    try:
        messages = messages_of(fields.get("messages"))
        for one in reversed(messages):
            if one["role"] == "assistant" and one.get("content"):
                return text_of(one["content"])
        if "data" in fields:
            return text_of(fields["data"])
    except (TypeError, ValueError, RecursionError):
        return ""  # the check of all responses names the field
    if messages and all(one["role"] != "assistant" for one in messages):
        raise DocumentError(
            "messages without an answer of the assistant\n"
            '  fix: add {"role": "assistant", "content": …}, or text'
        )
    return ""
