"""Mappings whose keys are attributes too: what traces and model outputs are made of.

Templates and snippets of LatticeFlow write ``output.choices[0].message.content`` as
well as ``output["choices"][0]``. Whatever keys stand in such a mapping are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from pytest_evals.dialects.latticeflow.prompts.text_objects import refuse_text
from pytest_evals.errors import did_you_mean

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
    "plain",
    "wrapped",
]


class Part(dict[str, Any]):
    """A mapping with its keys as attributes; mappings inside are parts too."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    """What a part of this kind has unless it is said."""

    def __init__(
        self, given: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> None:
        """Take the entries of a mapping, then the fields."""
        super().__init__(self.DEFAULTS)
        self.update(given or {}, **fields)
        for name, value in self.items():
            if type(value) not in _LEAVES:
                self[name] = wrapped(value)

    def __eq__(self, other: object) -> bool:
        """Whether the fields are equal.

        Raises:
            TypeError: The other one is a string, as for :class:`Structured`.
        """
        refuse_text(self, other)
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """The opposite, which a dict does not derive from ``==``."""
        refuse_text(self, other)
        return dict.__ne__(self, other)

    __hash__ = None  # as of every dict

    def __deepcopy__(self, memo: dict[int, Any]) -> Part:
        """A part of its own, in a third of the time that Python's own way takes."""
        made = dict.__new__(type(self))
        memo[id(self)] = made
        for name, value in self.items():
            is_leaf = type(value) in _LEAVES
            dict.__setitem__(made, name, value if is_leaf else deepcopy(value, memo))
        return made

    def __getattr__(self, name: str) -> Any:
        """The entry of that name."""
        try:
            return self[name]
        except KeyError:
            hint = did_you_mean(name, list(self))
            raise AttributeError(f"there is no {name!r}{hint}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the entry of that name."""
        self[name] = wrapped(value)


def wrapped(value: Any) -> Any:
    """The value with its mappings as parts."""
    if type(value) in _LEAVES or isinstance(value, Part):
        return value
    if isinstance(value, list):
        return [wrapped(one) for one in value]
    if isinstance(value, Mapping):
        return Part(value)
    return [wrapped(one) for one in value] if isinstance(value, tuple) else value


_LEAVES = frozenset({str, int, float, bool, type(None)})
"""Types with nothing inside."""


def plain(value: Any) -> Any:
    """The value with its parts as plain dicts, which every encoder knows."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    dump = getattr(value, "to_dict", None)
    return plain(dump()) if callable(dump) else value


class InputTextContent(Part):
    """Text that somebody else than the model wrote."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "input_text"}


class OutputTextContent(Part):
    """Text that a model wrote."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "output_text", "annotations": []}


class RefusalContent(Part):
    """What a model says instead of an answer."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "refusal"}


class TextCitation(Part):
    """A passage that an answer rests on."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "text_citation"}


class UrlCitation(Part):
    """A page that an answer rests on."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "url_citation"}


class Content(list[Any]):
    """The parts of a message."""

    def __eq__(self, other: object) -> bool:
        """Whether the parts are equal.

        Raises:
            TypeError: The other one is a string, as for :class:`Structured`.
        """
        refuse_text(self, other)
        return list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """The opposite, which a list does not derive from ``==``."""
        refuse_text(self, other)
        return list.__ne__(self, other)

    __hash__ = None  # as of every list


class Message(Part):
    """What one side of a conversation says; a text as ``content`` becomes one part."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "message",
        "id": "",
        "status": "completed",
    }

    def __init__(
        self, given: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> None:
        """As for every part."""
        super().__init__(given, **fields)
        content = self.get("content")
        if isinstance(content, str):
            says = self.get("role") == "assistant"
            kind = OutputTextContent if says else InputTextContent
            self["content"] = Content([kind(text=str(content))])
        elif content is None or isinstance(content, list):
            self["content"] = Content(content or ())


class FunctionCall(Part):
    """A model's call of a function; ``arguments`` are JSON text."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "function_call",
        "id": "",
        "call_id": "",
        "arguments": "{}",
        "status": "completed",
    }


class FunctionCallOutput(Part):
    """What a function gave."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "function_call_output",
        "id": "",
        "call_id": "",
        "output": "",
        "status": "completed",
    }


class CustomTaskInputMessage(Part):
    """What a model of a custom task is given: anything."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "custom_task_input_message"}


class CustomTaskOutputMessage(Part):
    """What a model of a custom task gives: anything."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"type": "custom_task_output_message"}


class ChatCompletionInputMessage(Part):
    """A message to a chat model."""


class ChatCompletionInput(Part):
    """What a chat model is given."""


class OpenResponsesModelOutput(Part):
    """What an agent gives: the items of its work."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"items": [], "usage": None}


class ModelUsage(Part):
    """How many tokens a call took."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "num_prompt_tokens": 0,
        "num_completion_tokens": 0,
    }
