"""Message builders of ``multi_turn_solver``: each adds to one conversation.

Where the documentation is silent: ``terminate_if`` outside of a loop ends the whole
conversation, inside of one it leaves that loop alone; ``loop_index`` counts from 0.
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
from pytest_evals.dialects.latticeflow.solvers.pass_through import TraceColumn
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain, input_of
from pytest_evals.errors import Place


@dataclass(slots=True)
class Conversation:
    """A conversation while it grows.

    Args:
        sample: What it is about.
        trial: Which go at it.
        items: What was said so far.
        raw_outputs: What the tested model gave for it.
    """

    sample: Sample
    trial: int
    items: list[Part] = field(default_factory=list)
    raw_outputs: list[Any] = field(default_factory=list)

    def variables(self, loop_index: int | None) -> dict[str, Any]:
        """What templates of messages may name."""
        messages = SolverOutput(trace=self.items).messages
        found = {"sample": self.sample, "messages": messages}
        return found if loop_index is None else {**found, "loop_index": loop_index}

    def mark(self) -> tuple[int, int]:
        """How long it is now."""
        return len(self.items), len(self.raw_outputs)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Take back what was said since then."""
        del self.items[mark[0] :]
        del self.raw_outputs[mark[1] :]


class Builder(Protocol):
    """Adds to a conversation."""

    @property
    def ending(self) -> Ending | None:
        """When what it adds is the last; ``None`` for never."""
        ...

    def dialogue(self, talk: Conversation, loop_index: int | None) -> Dialogue[str]:
        """Add to it; gives the text that was added last.

        Args:
            talk: Grows.
            loop_index: How often the innermost loop went round before; ``None`` outside
                of loops.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """``terminate_if``: a text that ends the loop, or the conversation.

    Args:
        includes: What the message has in it.
        keep: Whether the messages of this go of the loop stay; outside of loops,
            whether that message does.
    """

    includes: str
    keep: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message by a template."""

    role: str
    content: SampleTemplate
    ending: Ending | None = None

    def message(self, talk: Conversation, loop_index: int | None) -> Part:
        """The message, which is not added."""
        text = self.content.render(talk.variables(loop_index))
        return Message(role=self.role, content=text)

    def dialogue(self, talk: Conversation, loop_index: int | None) -> Dialogue[str]:
        """Ask nothing."""
        yield from ()
        message = self.message(talk, loop_index)
        talk.items.append(message)
        return text_of(message) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateAnswer:
    """An answer of the tested model to all that was said."""

    line: SolverChain
    ending: Ending | None = None

    def dialogue(self, talk: Conversation, loop_index: int | None) -> Dialogue[str]:
        """Ask once."""
        given = input_of(talk.items)
        (response,) = yield (self.line.ask(given, talk.sample, talk.trial),)
        reply = self.line.read(response)
        talk.items += reply.items
        talk.raw_outputs.append(reply.raw_output)
        texts = [text_of(item) for item in reply.items if item["type"] == "message"]
        return "\n".join(text for text in texts if text is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateMessage:
    """A message that another model writes.

    Args:
        line: To that model.
        extra: Messages that it is given and that nobody else sees.
        with_conversation: Whether it is given the conversation too, in front of them.
        role: Of its message in the conversation.
        ending: When that is the last.
    """

    line: SolverChain
    extra: tuple[ChatMessage, ...]
    with_conversation: bool = True
    role: str = "assistant"
    ending: Ending | None = None

    def dialogue(self, talk: Conversation, loop_index: int | None) -> Dialogue[str]:
        """Ask once."""
        said = talk.items if self.with_conversation else []
        extra = [one.message(talk, loop_index) for one in self.extra]
        given = input_of([*said, *extra])
        (response,) = yield (self.line.ask(given, talk.sample, talk.trial),)
        text = self.line.read(response).text
        talk.items.append(Message(role=self.role, content=text))
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrace:
    """A recorded beginning."""

    column: TraceColumn
    ending: Ending | None = None

    def dialogue(self, talk: Conversation, loop_index: int | None) -> Dialogue[str]:
        """Ask nothing."""
        yield from ()
        talk.items += self.column.of(talk.sample).items
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Builders again and again.

    Args:
        builders: What each go does.
        most: How many there are at most.
        must_end: Whether it is a fault if none of them met its ending by then.
        place: Where the limit stands.
    """

    builders: tuple[Builder, ...]
    most: int
    must_end: bool
    place: Place
    ending: Ending | None = None

    def dialogue(self, talk: Conversation, loop_index: int | None) -> Dialogue[str]:
        """Go round.

        Raises:
            DocumentError: It must end, and did not.
        """
        for index in range(self.most):
            mark = talk.mark()
            met = yield from run(self.builders, talk, index)
            if met is not None:
                if not met.keep:
                    talk.back_to(mark)
                return ""
        if self.must_end and any(builder.ending for builder in self.builders):
            what = f"the loop went round {self.most} times and met no terminate_if"
            fix = "raise max_iterations, or on_max_iterations: continue"
            raise FieldError(what, self.place, fix)
        return ""


def run(
    builders: Sequence[Builder], talk: Conversation, loop_index: int | None
) -> Dialogue[Ending | None]:
    """Let builders add to a conversation, one after the other, until one has met its
    ending; gives that ending."""
    for builder in builders:
        mark = talk.mark()
        text = yield from builder.dialogue(talk, loop_index)
        ending = builder.ending
        if ending is not None and ending.includes in text:
            if loop_index is None and not ending.keep:
                talk.back_to(mark)
            return ending
    return None
