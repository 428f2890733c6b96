"""Items of traces and model outputs, and their conversion from and to chat messages.

Items are mappings with attribute access: LatticeFlow's templates and snippets use both
``output.choices[0].message.content`` and ``output["choices"][0]``. Unknown keys are
kept. OpenAI chat messages are accepted too; LatticeFlow silently misreads them. Source:
``latticeflow-core`` 3.17.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, ClassVar

from pytest_evals.errors import DocumentError, unknown_name


class _NoText:
    """Comparing it with a string raises ``TypeError``: it would be False and score
    correct answers as wrong."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        self._refuse(other)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        self._refuse(other)
        return super().__ne__(other)

    def _refuse(self, other: object) -> None:
        if isinstance(other, str):
            keys = f": {', '.join(map(str, self))}" if isinstance(self, Mapping) else ""
            raise TypeError(
                f"{type(self).__name__} was compared with the string {other!r:.60}, "
                f"which is never equal; compare one of its fields{keys}"
            )


class Structured(_NoText):
    """An object that equals only itself."""

    __slots__ = ()
    __hash__ = object.__hash__


class Part(_NoText, dict[str, Any]):
    """A mapping whose keys are also attributes; nested mappings are parts too."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}  # Default fields of this kind of part

    def __init__(
        self, given: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> None:
        super().__init__(self.DEFAULTS)
        self.update(given or {}, **fields)
        for name, value in self.items():
            if type(value) not in _LEAVES:
                self[name] = wrap(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Part:
        # A third of the default implementation's time.
        copied = dict.__new__(type(self))
        memo[id(self)] = copied
        for name, value in self.items():
            is_leaf = type(value) in _LEAVES
            dict.__setitem__(copied, name, value if is_leaf else deepcopy(value, memo))
        return copied

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(unknown_name("field", name, self)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = wrap(value)


def wrap(value: Any) -> Any:
    """Return the value with its mappings as parts."""
    if type(value) in _LEAVES or isinstance(value, Part):
        return value
    if isinstance(value, list):
        return [wrap(one) for one in value]
    if isinstance(value, Mapping):
        return Part(value)
    return [wrap(one) for one in value] if isinstance(value, tuple) else value


_LEAVES = frozenset({str, int, float, bool, type(None)})  # Types without nested values


def unwrap(value: Any) -> Any:
    """Return the value with its parts as plain dicts, which every encoder supports."""
    if isinstance(value, Mapping):
        return {str(name): unwrap(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [unwrap(one) for one in value]
    dump = getattr(value, "to_dict", None)
    return unwrap(dump()) if callable(dump) else value


def part_kind(name: str, module: str = __name__, /, **defaults: Any) -> type[Part]:
    """Return a kind of part with default fields."""
    return type(name, (Part,), {"__module__": module, "DEFAULTS": defaults})


def _call_kind(name: str, kind: str, **fields: Any) -> type[Part]:
    return part_kind(name, type=kind, id="", call_id="", **fields, status="completed")


InputTextContent = part_kind("InputTextContent", type="input_text")
OutputTextContent = part_kind("OutputTextContent", type="output_text", annotations=[])
RefusalContent = part_kind("RefusalContent", type="refusal")
TextCitation = part_kind("TextCitation", type="text_citation")
UrlCitation = part_kind("UrlCitation", type="url_citation")
# Calls of functions by a model; the arguments are JSON text.
FunctionCall = _call_kind("FunctionCall", "function_call", arguments="{}")
FunctionCallOutput = _call_kind("FunctionCallOutput", "function_call_output", output="")
# Any value, of a custom task's model.
CustomTaskInputMessage = part_kind(
    "CustomTaskInputMessage", type="custom_task_input_message"
)
CustomTaskOutputMessage = part_kind(
    "CustomTaskOutputMessage", type="custom_task_output_message"
)
# Inputs and outputs of chats and agents.
ChatCompletionInputMessage = part_kind("ChatCompletionInputMessage")
ChatCompletionInput = part_kind("ChatCompletionInput")
OpenResponsesModelOutput = part_kind("OpenResponsesModelOutput", items=[], usage=None)
ModelUsage = part_kind("ModelUsage", num_prompt_tokens=0, num_completion_tokens=0)


class Content(_NoText, list[Any]):
    """The parts of a message."""


class Message(Part):
    """A message of a conversation; a string as ``content`` becomes one part."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "message",
        "id": "",
        "status": "completed",
    }

    def __init__(
        self, given: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> None:
        super().__init__(given, **fields)
        content = self.get("content")
        if isinstance(content, str):
            is_output = self.get("role") == "assistant"
            kind = OutputTextContent if is_output else InputTextContent
            self["content"] = Content([kind(text=str(content))])
        elif content is None or isinstance(content, list):
            self["content"] = Content(content or ())


PART_KINDS = tuple(
    name
    for name, kind in globals().items()
    if isinstance(kind, type) and issubclass(kind, Part)
)
"""Names of all kinds of parts above."""
ROLES = ("system", "user", "assistant", "developer")  # Roles of messages
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
"""Keys of messages that are converted; all others are copied."""


def items_of(recorded: Iterable[Any]) -> list[Part]:
    """Return the items of a recorded list of items or chat messages."""
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


def _call(call: Mapping[str, Any]) -> Part:
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
    assistant message."""
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
    parts = item["content"]
    if isinstance(parts, str):
        return parts
    if all(isinstance(p, Mapping) and ("text" in p or "refusal" in p) for p in parts):
        return text_of(item) or ""
    return unwrap(parts)
