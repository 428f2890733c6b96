"""What applications return in addition to their answer: JSON values, in one form, of
the fields :data:`RETURNED` of a response.

Other forms that clients and frameworks have are read as well: OpenAI's tool calls,
LangChain's ``args`` and documents, objects with ``model_dump``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

RETURNED = ("steps", "data", "calls", "contexts", "messages", "usage", "metadata")
"""The fields, in the order in which they are shown."""


class NotJsonError(TypeError):
    """A value has a part that is not JSON; the message names its type."""


def json_value(given: Any) -> Any:
    """Return a copy of a JSON value; tuples become lists.

    Raises:
        TypeError: It is another value.
        ValueError: It is nested too deeply, or contains NaN or infinity.
    """
    try:
        return json.loads(json.dumps(given, allow_nan=False, default=_dumped))
    except RecursionError:
        raise ValueError from None


Mappings = tuple[Mapping[str, Any], ...]


def mappings_of(given: Any) -> Mappings:
    """Return a sequence of mappings of JSON values; raises as :func:`mapping_of`."""
    return _each(given, _as_mapping)


def mapping_of(given: Any) -> Mapping[str, Any] | None:
    """Return a mapping of JSON values; ``None`` if it is ``None``.

    Raises:
        TypeError: It is something else.
        ValueError: As for :func:`json_value`.
    """
    return None if given is None else _as_mapping(given)


def calls_of(given: Any) -> Mappings:
    """Return tool calls as mappings: ``name``, ``arguments`` (a mapping; text that is
    not a JSON object stays text), and if known ``id``, ``result``, ``error`` and
    ``parent``, the ``id`` of the call that made this one. Raises as :func:`mapping_of`,
    and for a call without a name."""
    return _each(given, _call)


def contexts_of(given: Any) -> Mappings:
    """Return retrieved texts as mappings: ``text``, and if known ``id`` and ``score``.
    A context may be a text alone, or have only an ``id``. Raises as :func:`mapping_of`,
    and for a context that has neither."""
    return _each(given, _context)


def messages_of(given: Any) -> Mappings:
    """Return messages as mappings with ``role`` and ``content``. Raises as
    :func:`mapping_of`, and for a message without a role."""
    return _each(given, _message)


def _each(given: Any, read: Callable[[Any], dict[str, Any]]) -> Mappings:
    if given is None:
        return ()
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError
    return tuple(map(read, given))


def _as_mapping(given: Any) -> dict[str, Any]:
    found = json_value(given)
    if not isinstance(found, dict):
        raise TypeError
    return found


def _dumped(value: Any) -> Any:
    """The JSON value of an object of pydantic or of NumPy."""
    for name, arguments in (("model_dump", {"mode": "json"}), ("item", {})):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            return method(**arguments)
    raise NotJsonError(f"a {type(value).__name__} in it is not a JSON value")


def _call(given: Any) -> dict[str, Any]:
    call = _as_mapping(given)
    kind = str(call.get("type") or "function")
    if isinstance(call.get(kind), dict):  # {"type": "function", "function": {…}}
        call |= call.pop(kind)
    if call.get("type") in ("function", "custom", "tool_call"):
        del call["type"]
    call.pop("index", None)
    for alias in ("args", "input"):
        if alias in call and "arguments" not in call:
            call["arguments"] = call.pop(alias)
    name, arguments = call.pop("name", None), call.pop("arguments", None)
    if not isinstance(name, str) or not name:
        raise TypeError
    return {"name": name, "arguments": _arguments(arguments), **call}


def _arguments(given: Any) -> Any:
    if given in ("", None):
        return {}
    if not isinstance(given, str):
        return given
    try:
        found = json_value(json.loads(given))  # Python reads NaN, which is not JSON
    except (ValueError, RecursionError):
        return given
    return found if isinstance(found, dict) else given


def _context(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"text": given}
    if isinstance(page := getattr(given, "page_content", None), str):
        metadata = getattr(given, "metadata", None) or {}
        id_ = getattr(given, "id", None) or metadata.get("id")
        given = {"id": id_, "page_content": page, "metadata": metadata}
    context = _as_mapping(given)
    for unknown in ("id", "score"):
        if context.get(unknown, "") is None:
            del context[unknown]
    for alias in ("page_content", "content"):
        if alias in context and "text" not in context:
            context["text"] = context.pop(alias)
    if not isinstance(context.get("text", ""), str) or not {"text", "id"} & {*context}:
        raise TypeError
    return context


def _message(given: Any) -> dict[str, Any]:
    if isinstance(given, tuple) and hasattr(given, "_asdict"):
        given = given._asdict()
    message = _as_mapping(given)
    if not isinstance(message.get("role"), str):
        raise TypeError
    return message


def call_text(call: Mapping[str, Any]) -> str:
    """A call: ``refund({"order_id": "A-17"}) -> done``; further lines are indented."""
    arguments = call.get("arguments")
    shown = arguments if isinstance(arguments, str) else compact(arguments)
    after = ""
    if call.get("error"):
        after = f" -> error: {text_of(call['error'])}"
    elif "result" in call:
        after = f" -> {text_of(call['result'])}"
    return _indented(f"{call.get('name')}({shown}){after}")


def transcript_text(messages: Iterable[Mapping[str, Any]]) -> str:
    """A transcript as text: a line for each message and each of its calls. Further
    lines of a message are indented, so that no text looks like another message."""
    lines = list[str]()
    for one in messages:
        content = one.get("content")
        if content not in (None, ""):
            lines.append(f"{one['role']}: {_indented(content)}")
        lines += [f"{one['role']} shows {name}" for name in one.get("images") or ()]
        for call in one.get("tool_calls") or one.get("calls") or ():
            try:
                shown = call_text(_call(call))
            except (TypeError, ValueError):
                shown = compact(call)
            lines.append(f"{one['role']} calls {shown}")
    return "\n".join(lines)


def text_of(value: Any) -> str:
    """A text as it is, the text parts of a message, any other value as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(map(_is_text_part, value)):
        return "".join(one["text"] for one in value)
    return compact(value)


def _indented(value: Any) -> str:
    """A value as text whose lines are indented, but for the first."""
    return "\n  ".join(text_of(value).splitlines())


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def compact(value: Any) -> str:
    """A JSON value on one line, in the characters of its language. Other values, which
    targets may contain, are their texts."""
    return json.dumps(value, ensure_ascii=False, default=str)


def returned_text(name: str, value: Any) -> str:
    """A field of :data:`RETURNED` as text, as templates and reports show it."""
    if name == "calls":
        return "\n".join(map(call_text, value))
    if name == "contexts":
        return "\n".join(
            f"[{number}] {_indented(one.get('text', one.get('id')))}"
            for number, one in enumerate(value, 1)
        )
    if name == "messages":
        return transcript_text(value)
    if name == "steps":
        return "\n".join(map(compact, value))
    return text_of(value)
