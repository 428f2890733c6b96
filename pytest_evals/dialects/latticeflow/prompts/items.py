"""Items of a trace: parsed from recorded entries, and converted to chat messages.

Source: ``latticeflow-core`` 3.17.0. OpenAI chat messages are accepted too; LatticeFlow
silently misreads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_evals.dialects.latticeflow.prompts.message_types import (
    CustomTaskInputMessage,
    CustomTaskOutputMessage,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputTextContent,
    Part,
    RefusalContent,
    TextCitation,
    unwrap,
)
from pytest_evals.errors import DocumentError

ROLES = ("system", "user", "assistant", "developer")
"""Roles of messages."""
_KINDS: Mapping[str, type[Part]] = {
    "message": Message,
    "function_call": FunctionCall,
    "function_call_output": FunctionCallOutput,
    "custom_task_input_message": CustomTaskInputMessage,
    "custom_task_output_message": CustomTaskOutputMessage,
}
_NO_EXTRA = frozenset(
    {"content", "id", "references", "refusal", "role", "status", "tool_calls", "type"}
)
"""Fields of messages that are converted; all others are copied."""


def items_of(recorded: Iterable[Any]) -> list[Part]:
    """Return the items of a recorded list.

    Raises:
        DocumentError: An entry is neither an item nor a message.
    """
    if isinstance(recorded, str | Mapping) or not isinstance(recorded, Iterable):
        raise DocumentError(f"expected a list of items, not {recorded!r:.80}")
    return [item for one in recorded for item in item_of(one)]


def item_of(recorded: Any) -> list[Part]:
    """Return the items of one entry; a message with function calls has several."""
    if not isinstance(recorded, Mapping):
        raise DocumentError(
            f"an item of a trace must be a mapping, not {recorded!r:.80}"
        )
    kind = recorded.get("type")
    if kind is None:
        return _message_items(recorded)
    if kind == "message" and recorded.get("role") not in ROLES:
        raise DocumentError(_role_error(recorded))
    if isinstance(recorded, Part) and isinstance(recorded, _KINDS.get(kind, Part)):
        return [recorded]
    return [_KINDS.get(kind, Part)(recorded)]


def _message_items(message: Mapping[str, Any]) -> list[Part]:
    """Return the items of an OpenAI chat message."""
    role = message.get("role")
    if role == "tool":
        call = message.get("tool_call_id") or ""
        return [FunctionCallOutput(call_id=call, output=message.get("content") or "")]
    if role not in ROLES:
        raise DocumentError(_role_error(message))
    extra = {name: one for name, one in message.items() if name not in _NO_EXTRA}
    message_item = Message(extra, role=role, content=message.get("content"))
    if message.get("refusal"):
        message_item["content"].append(RefusalContent(refusal=message["refusal"]))
    calls: list[Part] = [_call(call) for call in message.get("tool_calls") or ()]
    has_no_content = not message_item["content"] and message.get("content") is None
    return calls if calls and has_no_content else [message_item, *calls]


def _call(call: Mapping[str, Any]) -> FunctionCall:
    function = call.get("function") or {}
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = json.dumps(unwrap(arguments))
    return FunctionCall(
        call_id=call.get("id") or "", name=function.get("name"), arguments=arguments
    )


def _role_error(message: Mapping[str, Any]) -> str:
    if "role" not in message:
        return f"an item of a trace needs a type or a role, not {message!r:.80}"
    return (
        f"a message's role must be one of {', '.join(ROLES)}, not {message['role']!r}"
    )


def text_of(item: Mapping[str, Any]) -> str | None:
    """Return a message's texts and refusals, one per line; ``None`` without any."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    texts = [
        part[name]
        for part in content or ()
        if isinstance(part, Mapping)
        for name in ("text", "refusal")
        if isinstance(part.get(name), str)
    ]
    return "\n".join(texts) if texts else None


def reply_items(
    message: Mapping[str, Any], references: Iterable[Any] = ()
) -> list[Part]:
    """Return the items of a chat model's message; its citations are items too."""
    items = item_of({"role": "assistant", **message, "type": None})
    cited = [TextCitation(content=one.get("content")) for one in references]
    for part in items[0].get("content") or () if cited and items else ():
        if isinstance(part, OutputTextContent):
            part["annotations"] = [*part["annotations"], *cited]
    return items


def messages_of(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the chat messages of items; a function call belongs to the preceding
    assistant message.

    Raises:
        DocumentError: An item has a type that chats do not have.
    """
    messages: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type")
        if kind == "message":
            extra = {n: unwrap(one) for n, one in item.items() if n not in _NO_EXTRA}
            messages.append({"role": item["role"], "content": _content(item), **extra})
        elif kind == "function_call":
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None})
            calls = messages[-1].setdefault("tool_calls", [])
            function = {"name": item["name"], "arguments": item["arguments"]}
            calls.append(
                {"id": item["call_id"], "type": "function", "function": function}
            )
        elif kind == "function_call_output":
            output = item["output"]
            text = output if isinstance(output, str) else text_of({"content": output})
            messages.append(
                {"role": "tool", "tool_call_id": item["call_id"], "content": text or ""}
            )
        elif kind != "reasoning":
            raise DocumentError(f"an item of type {kind!r} cannot be part of a chat")
    return messages


def _content(item: Mapping[str, Any]) -> Any:
    """Return a string if the message has only text, else its parts."""
    parts = item["content"]
    if isinstance(parts, str):
        return parts
    if all(isinstance(p, Mapping) and ("text" in p or "refusal" in p) for p in parts):
        return text_of(item) or ""
    return unwrap(parts)
