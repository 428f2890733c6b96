"""A conversation as a list of items, and what templates and snippets ask of it.

Facts: ``latticeflow-core`` 3.17.0. What comes before the first message of the user is
the preamble, and no part of the conversation proper; a trace without such a message has
its system messages at the beginning as preamble.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pytest_evals.dialects.latticeflow.prompts.items import items_of, text_of
from pytest_evals.dialects.latticeflow.prompts.message_types import Part, plain, wrapped
from pytest_evals.dialects.latticeflow.prompts.text_objects import (
    Structured,
    refuse_text,
)
from pytest_evals.errors import DocumentError


class _Listed(Structured):
    """Questions that a turn answers as well as a whole trace."""

    def _own(self) -> Sequence[Part]:
        raise NotImplementedError

    @property
    def assistant_messages(self) -> list[Part]:
        """Messages of the assistant."""
        return _messages(self._own(), "assistant")

    @property
    def function_calls(self) -> list[Part]:
        """Calls of functions."""
        return _of_type(self._own(), "function_call")

    @property
    def function_outputs(self) -> list[Part]:
        """What functions gave."""
        return _of_type(self._own(), "function_call_output")

    @property
    def function_call_pairs(self) -> list[tuple[Part, Part | None]]:
        """Each call with what it gave; ``None`` if it gave nothing."""
        given = {output.get("call_id"): output for output in self.function_outputs}
        return [(call, given.get(call.get("call_id"))) for call in self.function_calls]


class TraceTurn(_Listed):
    """A message of the user, and what was done about it."""

    def __init__(self, user_message: Part, assistant_items: list[Part]) -> None:
        """The message, and all items until the next one."""
        self.user_message = user_message
        self.assistant_items = assistant_items

    def _own(self) -> Sequence[Part]:
        return self.assistant_items


class Trace(_Listed):
    """A conversation.

    Args:
        items: What was said and done.
        events: What a recorder has kept beside; with ``item`` in them they are where
            the items come from.
        metadata: Whatever was noted.
        span_id, span_name, span_type: What a recorder calls it.
    """

    FORMAT: ClassVar[str] = "open_responses"

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        events: Iterable[Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **span: Any,
    ) -> None:
        """Take items in any form that is understood.

        Raises:
            DocumentError: Something is no item.
        """
        self.events = [wrapped(event) for event in events or ()]
        recorded = [e["item"] for e in self.events if "item" in e]
        self.items = items_of(recorded or items or ())
        self.metadata = wrapped(metadata or {})
        self.span_id = span.get("span_id")
        self.span_name = span.get("span_name")
        self.span_type = span.get("span_type")

    @classmethod
    def from_items(cls, items: Iterable[Any]) -> Trace:
        """A trace of these items."""
        return cls(items)

    def __eq__(self, other: object) -> bool:
        """Whether the same was said and done.

        Raises:
            TypeError: The other one is a string.
        """
        refuse_text(self, other)
        return isinstance(other, Trace) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]  # its items may change

    def __str__(self) -> str:
        """What was said, a paragraph a message."""
        told = [f"{i.get('role')}: {text_of(i) or ''}" for i in self._said()]
        return "\n\n".join(told)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        found = {"items": plain(self.items)}
        if self.metadata:
            found["metadata"] = plain(self.metadata)
        return found

    def _own(self) -> Sequence[Part]:
        return self.conversation_items

    def _said(self) -> list[Part]:
        return _of_type(self.items, "message")

    @property
    def _begin(self) -> int:
        """Items of the preamble."""
        for n, item in enumerate(self.items):
            if _is_message(item, "user"):
                return n
        for n, item in enumerate(self.items):
            if not _is_message(item, "system", "developer"):
                return n
        return len(self.items)

    @property
    def preamble(self) -> list[Part]:
        """The items before the conversation proper."""
        return self.items[: self._begin]

    @property
    def conversation_items(self) -> list[Part]:
        """All items after the preamble."""
        return self.items[self._begin :]

    @property
    def system_messages(self) -> list[Part]:
        """System messages of the preamble."""
        return _messages(self.preamble, "system")

    @property
    def user_messages(self) -> list[Part]:
        """Messages of the user."""
        return _messages(self.conversation_items, "user")

    @property
    def turns(self) -> list[TraceTurn]:
        """The conversation, cut before each message of the user."""
        found: list[TraceTurn] = []
        for item in self.conversation_items:
            if _is_message(item, "user"):
                found.append(TraceTurn(item, []))
            elif found:
                found[-1].assistant_items.append(item)
        return found

    def get_last_assistant_text(self) -> str | None:
        """The last that the assistant said; ``None`` if it said nothing."""
        messages = _messages(self.items, "assistant")
        return text_of(messages[-1]) if messages else None

    def get_last_user_text(self) -> str | None:
        """The last that the user said; ``None`` if they said nothing."""
        messages = _messages(self.items, "user")
        return text_of(messages[-1]) if messages else None

    def get_first_system_prompt(self) -> str | None:
        """What the first system message says; ``None`` if there is none."""
        messages = _messages(self.items, "system")
        return text_of(messages[0]) if messages else None

    def get_function_calls_by_name(self, name: str) -> list[Part]:
        """Calls of one function."""
        return [call for call in self.function_calls if call.get("name") == name]

    def get_function_output_for_call(self, call_id: str) -> Part | None:
        """What a call gave; ``None`` if it gave nothing."""
        found = [o for o in self.function_outputs if o.get("call_id") == call_id]
        return found[0] if found else None

    def get_function_call_pairs(self) -> list[tuple[Part, Part | None]]:
        """Each call with what it gave."""
        return self.function_call_pairs

    def get_function_call_arguments(self, call: Mapping[str, Any]) -> Any:
        """The arguments of a call, as values."""
        return wrapped(json.loads(call["arguments"]))

    def get_function_output_text(self, output: Mapping[str, Any]) -> str:
        """What a function gave, as text."""
        given = output["output"]
        return given if isinstance(given, str) else text_of({"content": given}) or ""

    def spans(self) -> list[Part]:
        """Events that a recorder has given a span."""
        return [event for event in self.events if event.get("span_id")]


def trace_of(recorded: Any) -> Trace:
    """The trace of a column: a trace, a list of items or of messages, a mapping that
    holds one of them, or any of these as JSON.

    Raises:
        DocumentError: It is none of that.
    """
    if isinstance(recorded, Trace):
        return recorded
    if isinstance(recorded, str):
        try:
            recorded = json.loads(recorded)
        except (ValueError, RecursionError):
            raise DocumentError(f"a trace is no JSON: {recorded!r:.80}") from None
    if isinstance(recorded, list | tuple):
        return Trace(recorded)
    if isinstance(recorded, Mapping):
        for name in ("items", "events", "messages"):
            if recorded.get(name) is not None:
                known = {n: o for n, o in recorded.items() if n != "messages"}
                if name == "messages":
                    known["items"] = recorded[name]
                return Trace(**{str(n): o for n, o in known.items()})
    raise DocumentError(f"this is no trace: {recorded!r:.80}")


def _of_type(items: Iterable[Part], kind: str) -> list[Part]:
    return [item for item in items if item.get("type") == kind]


def _messages(items: Iterable[Part], role: str) -> list[Part]:
    return [item for item in items if _is_message(item, role)]


def _is_message(item: Mapping[str, Any], *roles: str) -> bool:
    return item.get("type") == "message" and item.get("role") in roles
