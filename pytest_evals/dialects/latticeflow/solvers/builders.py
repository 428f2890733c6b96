"""Message builders of ``multi_turn_solver``; each adds to one conversation.

Not specified by the documentation: ``terminate_if`` ends the innermost loop, or the
conversation outside loops; ``loop_index`` counts from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.latticeflow.prompts.items import text_of
from pytest_evals.dialects.latticeflow.prompts.message_types import Message, Part
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient, input_of
from pytest_evals.dialects.latticeflow.solvers.pass_through import TraceColumn
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.errors import Place


@dataclass(slots=True)
class Conversation:
    """A conversation under construction. ``raw_outputs``: outputs of the tested
    model so far."""

    sample: Sample
    trial: int
    items: list[Part] = field(default_factory=list)
    raw_outputs: list[Any] = field(default_factory=list)

    def variables(self, loop_index: int | None) -> dict[str, Any]:
        """Return the variables of message templates."""
        messages = SolverOutput(trace=self.items).messages
        variables = {"sample": self.sample, "messages": messages}
        return (
            variables if loop_index is None else {**variables, "loop_index": loop_index}
        )

    def mark(self) -> tuple[int, int]:
        """Return the current position."""
        return len(self.items), len(self.raw_outputs)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Remove everything after a position."""
        del self.items[mark[0] :]
        del self.raw_outputs[mark[1] :]


class Builder(Protocol):
    """Adds to a conversation."""

    @property
    def ending(self) -> Ending | None:
        """Condition that ends the conversation or loop, or ``None``."""
        ...

    def dialogue(
        self, conversation: Conversation, loop_index: int | None
    ) -> Dialogue[str]:
        """Add to the conversation; returns the last text that was added. ``loop_index``
        is the iteration of the innermost loop, ``None`` outside loops."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """``terminate_if``: a text that ends the loop, or the conversation. ``keep``:
    whether the messages of this iteration are kept; outside loops, the message."""

    includes: str
    keep: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message from a template."""

    role: str
    content: SampleTemplate
    ending: Ending | None = None

    def message(self, conversation: Conversation, loop_index: int | None) -> Part:
        """Return the message without adding it."""
        text = self.content.render(conversation.variables(loop_index))
        return Message(role=self.role, content=text)

    def dialogue(
        self, conversation: Conversation, loop_index: int | None
    ) -> Dialogue[str]:
        """Add the message; sends no request."""
        yield from ()
        message = self.message(conversation, loop_index)
        conversation.items.append(message)
        return text_of(message) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateAnswer:
    """An answer of the tested model to the conversation."""

    client: ModelClient
    ending: Ending | None = None

    def dialogue(
        self, conversation: Conversation, loop_index: int | None
    ) -> Dialogue[str]:
        """Send one request."""
        given = input_of(conversation.items)
        (response,) = yield (
            self.client.ask(given, conversation.sample, conversation.trial),
        )
        reply = self.client.read(response)
        conversation.items += reply.items
        conversation.raw_outputs.append(reply.raw_output)
        texts = [text_of(item) for item in reply.items if item["type"] == "message"]
        return "\n".join(text for text in texts if text is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateMessage:
    """A message that another model writes.

    Args:
        extra: Additional messages that only this model receives.
        with_conversation: Whether it receives the conversation, before the additional
            messages.
        role: Role of its message in the conversation.
        ending: Condition that ends the conversation or loop.
    """

    client: ModelClient
    extra: tuple[ChatMessage, ...]
    with_conversation: bool = True
    role: str = "assistant"
    ending: Ending | None = None

    def dialogue(
        self, conversation: Conversation, loop_index: int | None
    ) -> Dialogue[str]:
        """Send one request."""
        conversation_items = conversation.items if self.with_conversation else []
        extra = [one.message(conversation, loop_index) for one in self.extra]
        given = input_of([*conversation_items, *extra])
        (response,) = yield (
            self.client.ask(given, conversation.sample, conversation.trial),
        )
        text = self.client.read(response).text
        conversation.items.append(Message(role=self.role, content=text))
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrace:
    """A recorded start of the conversation."""

    column: TraceColumn
    ending: Ending | None = None

    def dialogue(
        self, conversation: Conversation, loop_index: int | None
    ) -> Dialogue[str]:
        """Add the trace; sends no request."""
        yield from ()
        conversation.items += self.column.read(conversation.sample).items
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Repeats builders. ``must_end``: whether reaching the maximum is an error."""

    builders: tuple[Builder, ...]
    max_iterations: int
    must_end: bool
    place: Place
    ending: Ending | None = None

    def dialogue(
        self, conversation: Conversation, loop_index: int | None
    ) -> Dialogue[str]:
        """Run the loop.

        Raises:
            DocumentError: It reached the maximum, which is an error.
        """
        for index in range(self.max_iterations):
            mark = conversation.mark()
            met = yield from run(self.builders, conversation, index)
            if met is not None:
                if not met.keep:
                    conversation.back_to(mark)
                return ""
        if self.must_end and any(builder.ending for builder in self.builders):
            what = (
                f"no terminate_if was met in {self.max_iterations} iterations of "
                "the loop"
            )
            fix = "raise max_iterations, or set on_max_iterations: continue"
            raise FieldError(what, self.place, fix)
        return ""


def run(
    builders: Sequence[Builder], conversation: Conversation, loop_index: int | None
) -> Dialogue[Ending | None]:
    """Run builders in order until one meets its ending; returns that ending."""
    for builder in builders:
        mark = conversation.mark()
        text = yield from builder.dialogue(conversation, loop_index)
        ending = builder.ending
        if ending is not None and ending.includes in text:
            if loop_index is None and not ending.keep:
                conversation.back_to(mark)
            return ending
    return None
