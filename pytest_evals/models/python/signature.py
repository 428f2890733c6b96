"""What a function of an application takes and returns.

``prompt`` is a string, or a list of message dicts if the prompt is a chat or has
images; ``messages`` is always a list; ``request`` is the :class:`Generate`. Otherwise
the first parameter gets the prompt. It returns a text, a response, or a mapping with
its fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.request import IMAGE_OPTIONS, Generate, Message, Response
from pytest_evals.core.response_contract import described
from pytest_evals.core.returned import messages_of, text_of
from pytest_evals.errors import DocumentError, OptionError, suggestion
from pytest_evals.models.chat_messages import chat_messages


class PromptParameter(NamedTuple):
    """A parameter that gets a value: its keyword, empty if positional, and which."""

    keyword: str
    value: str


def parameters_of(
    function: Callable[..., Any], name: str
) -> tuple[PromptParameter, ...]:
    """The parameters that get a value; ``OptionError`` if the function has none for the
    prompt, or another one without a default."""
    try:
        known = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # a built-in function
        return (PromptParameter("", "prompt"),)
    takers: list[PromptParameter] = []
    is_named = any(_is_named(one) for one in known)
    for n, one in enumerate(known):
        if _is_named(one):
            takers.append(PromptParameter(one.name, one.name))
        elif n == 0 and not is_named and one.kind not in _NOT_FIRST:
            value = one.name if one.name in _VALUES else "prompt"
            takers.append(PromptParameter("", value))
        elif one.default is one.empty and one.kind not in _VARIABLE:
            raise OptionError(
                f"{name} has the parameter {one.name!r} without a default\n"
                "  fix: give it a default; a function may take prompt, messages and "
                "request"
            )
    if not takers:
        raise OptionError(
            f"{name} has no parameter for the prompt\n"
            f"  fix: def {name.rpartition(':')[2]}(prompt): …"
        )
    return tuple(takers)


def arguments_of(
    request: Generate, parameters: Sequence[PromptParameter]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for a request."""
    values = [(one.keyword, _VALUES[one.value](request)) for one in parameters]
    positional = [value for keyword, value in values if not keyword]
    return positional, {keyword: value for keyword, value in values if keyword}


def chat_of(request: Generate) -> tuple[Message, ...]:
    """The messages of a prompt; a text is one of the user."""
    prompt = request.prompt
    return (Message("user", prompt),) if isinstance(prompt, str) else prompt


def _messages(request: Generate) -> list[dict[str, Any]]:
    return chat_messages(chat_of(request), dict(request.options))


def _prompt(request: Generate) -> str | list[dict[str, Any]]:
    has_images = IMAGE_OPTIONS & {*dict(request.options)}
    if isinstance(request.prompt, str) and not has_images:
        return request.prompt
    return _messages(request)


_VALUES: Mapping[str, Callable[[Generate], Any]] = {
    "prompt": _prompt,
    "messages": _messages,
    "request": lambda request: request,
}
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_NOT_FIRST = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def _is_named(one: inspect.Parameter) -> bool:
    kinds = (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    return one.name in _VALUES and one.kind in kinds


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
