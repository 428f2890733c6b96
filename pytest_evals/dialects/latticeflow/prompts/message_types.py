"""Mappings with attribute access, of which traces and model outputs consist.

LatticeFlow's templates and snippets use both ``output.choices[0].message.content`` and
``output["choices"][0]``. Unknown keys are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from pytest_evals.errors import unknown_name

__all__ = [
    "ChatCompletionInput",
    "ChatCompletionInputMessage",
    "CustomTaskInputMessage",
    "CustomTaskOutputMessage",
    "FunctionCall",
    "FunctionCallOutput",
    "InputTextContent",
    "Message",
    "ModelUsage",
    "OpenResponsesModelOutput",
    "OutputTextContent",
    "Part",
    "RefusalContent",
    "TextCitation",
    "UrlCitation",
    "unwrap",
    "wrap",
]


class Part(dict[str, Any]):
    """A mapping whose keys are also attributes; nested mappings are parts too."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    """Default fields of this kind of part."""

    def __init__(
        self, given: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> None:
        super().__init__(self.DEFAULTS)
        self.update(given or {}, **fields)
        for name, value in self.items():
            if type(value) not in _LEAVES:
                self[name] = wrap(value)

    def __eq__(self, other: object) -> bool:
        """Compare fields.

        Raises:
            TypeError: The other object is a string, as for :class:`Structured`.
        """
        refuse_text(self, other)
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """Negate ``==``; dict does not derive it."""
        refuse_text(self, other)
        return dict.__ne__(self, other)

    __hash__ = None  # as of every dict

    def __deepcopy__(self, memo: dict[int, Any]) -> Part:
        """Return a deep copy, in a third of the default implementation's time."""
        copied = dict.__new__(type(self))
        memo[id(self)] = copied
        for name, value in self.items():
            is_leaf = type(value) in _LEAVES
            dict.__setitem__(copied, name, value if is_leaf else deepcopy(value, memo))
        return copied

    def __getattr__(self, name: str) -> Any:
        """Return the item with that name."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(unknown_name("field", name, self)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the item with that name."""
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


_LEAVES = frozenset({str, int, float, bool, type(None)})
"""Types without nested values."""


def unwrap(value: Any) -> Any:
    """Return the value with its parts as plain dicts, which every encoder supports."""
    if isinstance(value, Mapping):
        return {str(name): unwrap(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [unwrap(one) for one in value]
    dump = getattr(value, "to_dict", None)
    return unwrap(dump()) if callable(dump) else value


class InputTextContent(Part):
    """Input text, not written by the model."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "input_text"}


class OutputTextContent(Part):
    """Text that a model wrote."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "output_text", "annotations": []}


class RefusalContent(Part):
    """Refusal of a model."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "refusal"}


class TextCitation(Part):
    """A cited passage."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "text_citation"}


class UrlCitation(Part):
    """A cited page."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "url_citation"}


class Content(list[Any]):
    """The parts of a message."""

    def __eq__(self, other: object) -> bool:
        """Compare parts.

        Raises:
            TypeError: The other object is a string, as for :class:`Structured`.
        """
        refuse_text(self, other)
        return list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """Negate ``==``; list does not derive it."""
        refuse_text(self, other)
        return list.__ne__(self, other)

    __hash__ = None  # as of every list


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


class FunctionCall(Part):
    """A model's function call; ``arguments`` is JSON text."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "function_call",
        "id": "",
        "call_id": "",
        "arguments": "{}",
        "status": "completed",
    }


class FunctionCallOutput(Part):
    """Output of a function call."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "function_call_output",
        "id": "",
        "call_id": "",
        "output": "",
        "status": "completed",
    }


class CustomTaskInputMessage(Part):
    """Input of a custom task's model; any value."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "custom_task_input_message"}


class CustomTaskOutputMessage(Part):
    """Output of a custom task's model; any value."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "custom_task_output_message"}


class ChatCompletionInputMessage(Part):
    """A message to a chat model."""


class ChatCompletionInput(Part):
    """Input of a chat model."""


class OpenResponsesModelOutput(Part):
    """Output of an agent: the items of its work."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"items": [], "usage": None}


class ModelUsage(Part):
    """Token counts of a call."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "num_prompt_tokens": 0,
        "num_completion_tokens": 0,
    }


class Structured:
    """An object that cannot be compared with a string: the result would always be False
    and score correct answers as wrong."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same object.

        Raises:
            TypeError: The other object is a string.
        """
        refuse_text(self, other)
        return self is other

    __hash__ = object.__hash__


def refuse_text(one: object, other: object) -> None:
    """Refuse to compare an object with a string.

    Raises:
        TypeError: The other object is a string.
    """
    if isinstance(other, str):
        keys = f": {', '.join(map(str, one))}" if isinstance(one, Mapping) else ""
        raise TypeError(
            f"{type(one).__name__} was compared with the string {other!r:.60}, which "
            f"is never equal; compare one of its fields{keys}"
        )
