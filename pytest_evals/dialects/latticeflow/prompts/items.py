"""Items of a trace: from whatever was recorded, and to the messages that models take.

Facts: ``latticeflow-core`` 3.17.0. Plain messages of OpenAI's form are understood too,
which upstream are taken for something else without a word.
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
    plain,
)
from pytest_evals.errors import DocumentError

ROLES = ("system", "user", "assistant", "developer")
"""Who speaks in a message."""
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
"""Fields of messages that have another form on the other side; all others stay."""


def items_of(recorded: Iterable[Any]) -> list[Part]:
    """The items of a recorded list.

    Raises:
        DocumentError: One of them is no item and no message.
    """
    if isinstance(recorded, str | Mapping) or not isinstance(recorded, Iterable):
        raise DocumentError(f"a list of items is wanted, not {recorded!r:.80}")
    return [item for one in recorded for item in item_of(one)]


def item_of(recorded: Any) -> list[Part]:
    """The items of one entry: a message with calls of functions is several.

    Raises:
        DocumentError: It is no item and no message.
    """
    if not isinstance(recorded, Mapping):
        raise DocumentError(f"an item of a trace is a mapping, not {recorded!r:.80}")
    kind = recorded.get("type")
    if kind is None:
        return _of_message(recorded)
    if kind == "message" and recorded.get("role") not in ROLES:
        raise DocumentError(_odd_role(recorded))
    if isinstance(recorded, Part) and isinstance(recorded, _KINDS.get(kind, Part)):
        return [recorded]
    return [_KINDS.get(kind, Part)(recorded)]


def _of_message(message: Mapping[str, Any]) -> list[Part]:
    """A message as OpenAI's API has it."""
    role = message.get("role")
    if role == "tool":
        call = message.get("tool_call_id") or ""
        return [FunctionCallOutput(call_id=call, output=message.get("content") or "")]
    if role not in ROLES:
        raise DocumentError(_odd_role(message))
    extra = {name: one for name, one in message.items() if name not in _NO_EXTRA}
    said = Message(extra, role=role, content=message.get("content"))
    if message.get("refusal"):
        said["content"].append(RefusalContent(refusal=message["refusal"]))
    calls: list[Part] = [_call(call) for call in message.get("tool_calls") or ()]
    silent = not said["content"] and message.get("content") is None
    return calls if calls and silent else [said, *calls]


def _call(call: Mapping[str, Any]) -> FunctionCall:
    function = call.get("function") or {}
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = json.dumps(plain(arguments))
    return FunctionCall(
        call_id=call.get("id") or "", name=function.get("name"), arguments=arguments
    )


def _odd_role(message: Mapping[str, Any]) -> str:
    if "role" not in message:
        return f"an item of a trace has a type or a role, not {message!r:.80}"
    return f"a message's role is one of {', '.join(ROLES)}, not {message['role']!r}"


def text_of(item: Mapping[str, Any]) -> str | None:
    """What a message says: its texts and refusals, one a line; ``None`` if it has
    none of them."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    found = [
        part[name]
        for part in content or ()
        if isinstance(part, Mapping)
        for name in ("text", "refusal")
        if isinstance(part.get(name), str)
    ]
    return "\n".join(found) if found else None


def of_reply(message: Mapping[str, Any], references: Iterable[Any] = ()) -> list[Part]:
    """The items of a chat model's message; passages that it rests on become
    citations."""
    items = item_of({"role": "assistant", **message, "type": None})
    cited = [TextCitation(content=one.get("content")) for one in references]
    for part in items[0].get("content") or () if cited and items else ():
        if isinstance(part, OutputTextContent):
            part["annotations"] = [*part["annotations"], *cited]
    return items


def messages_of(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages that a chat model is given: a call of a function belongs to the
    assistant's message before it.

    Raises:
        DocumentError: An item is of a kind that no chat has.
    """
    messages: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type")
        if kind == "message":
            extra = {n: plain(one) for n, one in item.items() if n not in _NO_EXTRA}
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
            raise DocumentError(f"an item of type {kind!r} has no place in a chat")
    return messages


def _content(item: Mapping[str, Any]) -> Any:
    """A text where the message is nothing but text, else its parts."""
    parts = item["content"]
    if isinstance(parts, str):
        return parts
    if all(isinstance(p, Mapping) and ("text" in p or "refusal" in p) for p in parts):
        return text_of(item) or ""
    return plain(parts)
