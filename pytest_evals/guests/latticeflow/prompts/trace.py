"""Traces: conversations, with the accessors of templates and snippets.

Items before the first user message are the preamble and not part of the conversation.
In a trace without user messages, the leading system messages are the preamble. Source:
``latticeflow-core`` 3.17.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partialmethod
from typing import Any, ClassVar

from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.prompts.items import (
    Part,
    Structured,
    items_of,
    text_of,
    unwrap,
    wrap,
)

_LEADING = ("system", "developer")
"""Roles of the preamble in a trace without user messages."""


def _selected(of: str, kind: str, role: str = "") -> Any:
    """Return a property: the items of a type and role in an attribute."""
    return property(lambda self: _matching(getattr(self, of), kind, role))


class _Accessors(Structured):
    """Accessors that turns and traces share: those of ``_of_model``."""

    _of_model: Any
    assistant_messages = _selected("_of_model", "message", "assistant")
    function_calls = _selected("_of_model", "function_call")
    function_outputs = _selected("_of_model", "function_call_output")

    @property
    def function_call_pairs(self) -> list[tuple[Part, Part | None]]:
        given = {output.get("call_id"): output for output in self.function_outputs}
        return [(call, given.get(call.get("call_id"))) for call in self.function_calls]


class TraceTurn(_Accessors):
    """A user message and the items up to the next one."""

    def __init__(self, user_message: Part, assistant_items: list[Part]) -> None:
        self.user_message = user_message
        self.assistant_items = self._of_model = assistant_items


class Trace(_Accessors):
    """A conversation, from items in any supported form. Recorded events that have an
    ``item`` replace the items; ``span_id``, ``span_name`` and ``span_type`` are the
    recorder's."""

    FORMAT: ClassVar[str] = "open_responses"

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        events: Iterable[Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **span: Any,
    ) -> None:
        self.events = [wrap(event) for event in events or ()]
        recorded = [e["item"] for e in self.events if "item" in e]
        self.items = items_of(recorded or items or ())
        self.metadata = wrap(metadata or {})
        self.span_id = span.get("span_id")
        self.span_name = span.get("span_name")
        self.span_type = span.get("span_type")

    @classmethod
    def from_items(cls, items: Iterable[Any]) -> Trace:
        """Return a trace of the items."""
        return cls(items)

    def __eq__(self, other: object) -> bool:
        self._refuse(other)
        return isinstance(other, Trace) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]  # its items may change

    def __str__(self) -> str:
        messages = _matching(self.items, "message")
        return "\n\n".join(f"{i.get('role')}: {text_of(i) or ''}" for i in messages)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as JSON values."""
        found = {"items": unwrap(self.items)}
        if self.metadata:
            found["metadata"] = unwrap(self.metadata)
        return found

    @property
    def _of_model(self) -> list[Part]:
        return self.conversation_items

    @property
    def _preamble_length(self) -> int:
        roles = [
            x.get("role") if x.get("type") == "message" else "" for x in self.items
        ]
        if "user" in roles:
            return roles.index("user")
        others = (n for n, role in enumerate(roles) if role not in _LEADING)
        return next(others, len(roles))

    @property
    def preamble(self) -> list[Part]:
        """Items before the conversation."""
        return self.items[: self._preamble_length]

    @property
    def conversation_items(self) -> list[Part]:
        """Items after the preamble."""
        return self.items[self._preamble_length :]

    system_messages = _selected("preamble", "message", "system")
    user_messages = _selected("conversation_items", "message", "user")

    @property
    def turns(self) -> list[TraceTurn]:
        """The conversation, split before each user message."""
        found: list[TraceTurn] = []
        for item in self.conversation_items:
            if item.get("type") == "message" and item.get("role") == "user":
                found.append(TraceTurn(item, []))
            elif found:
                found[-1].assistant_items.append(item)
        return found

    def _text(self, role: str, position: int) -> str | None:
        messages = _matching(self.items, "message", role)
        return text_of(messages[position]) if messages else None

    # They return ``None`` without such a message.
    get_last_assistant_text = partialmethod(_text, "assistant", -1)
    get_last_user_text = partialmethod(_text, "user", -1)
    get_first_system_prompt = partialmethod(_text, "system", 0)

    def get_function_calls_by_name(self, name: str) -> list[Part]:
        """Return the calls of one function."""
        return [call for call in self.function_calls if call.get("name") == name]

    def get_function_output_for_call(self, call_id: str) -> Part | None:
        """Return the output of a call, or ``None``."""
        found = [o for o in self.function_outputs if o.get("call_id") == call_id]
        return found[0] if found else None

    def get_function_call_pairs(self) -> list[tuple[Part, Part | None]]:
        """Return each call with its output."""
        return self.function_call_pairs

    def get_function_call_arguments(self, call: Mapping[str, Any]) -> Any:
        """Return the parsed arguments of a call."""
        return wrap(json.loads(call["arguments"]))

    def get_function_output_text(self, output: Mapping[str, Any]) -> str:
        """Return the output of a function as text."""
        given = output["output"]
        return given if isinstance(given, str) else text_of({"content": given}) or ""

    def spans(self) -> list[Part]:
        """Return the events that have a span."""
        return [event for event in self.events if event.get("span_id")]


def trace_of(recorded: Any) -> Trace:
    """Return the trace of a column: a trace, a list of items or messages, a mapping
    that contains one of them, or any of these as JSON."""
    if isinstance(recorded, Trace):
        return recorded
    if isinstance(recorded, str):
        try:
            recorded = json.loads(recorded)
        except (ValueError, RecursionError):
            raise DocumentError(f"invalid JSON in a trace: {recorded!r:.80}") from None
    if isinstance(recorded, list | tuple):
        return Trace(recorded)
    if isinstance(recorded, Mapping):
        for name in ("items", "events", "messages"):
            if recorded.get(name) is not None:
                known = {n: o for n, o in recorded.items() if n != "messages"}
                if name == "messages":
                    known["items"] = recorded[name]
                return Trace(**{str(n): o for n, o in known.items()})
    raise DocumentError(f"not a trace: {recorded!r:.80}")


def _matching(items: Iterable[Part], kind: str, role: str = "") -> list[Part]:
    return [
        item
        for item in items
        if item.get("type") == kind and (not role or item.get("role") == role)
    ]
