"""``multi_turn_solver``: a conversation that message builders create; and
``pass_through_solver``: a recorded one.

Not specified by LatticeFlow's documentation: ``terminate_if`` ends the innermost loop,
or the conversation outside loops; ``loop_index`` counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import ColumnError, FieldError
from pytest_evals.dialects.latticeflow.fields import (
    read_typed,
    required_entries,
    required_text,
    template,
)
from pytest_evals.dialects.latticeflow.prompts.items import Message, Part, text_of
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.prompts.trace import Trace, trace_of
from pytest_evals.dialects.latticeflow.solvers.model_client import (
    ModelClient,
    Models,
    Sample,
    input_of,
    model_client,
)
from pytest_evals.dialects.latticeflow.solvers.single_turn import ROLES, read_role
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError, Place, unknown_name


@dataclass(slots=True)
class Conversation:
    """A conversation under construction."""

    sample: Sample
    trial: int
    items: list[Part] = field(default_factory=list)
    raw_outputs: list[Any] = field(default_factory=list)  # of the tested model
    loop_index: int | None = None  # iteration of the innermost loop

    def render(self, content: SampleTemplate) -> str:
        """Return the text of a message template."""
        messages = SolverOutput(trace=self.items).messages
        variables: dict[str, Any] = {"sample": self.sample, "messages": messages}
        if self.loop_index is not None:
            variables["loop_index"] = self.loop_index
        return content.render(variables)

    def mark(self) -> tuple[int, int]:
        """Return the current position."""
        return len(self.items), len(self.raw_outputs)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Remove everything after a position."""
        del self.items[mark[0] :]
        del self.raw_outputs[mark[1] :]


class Step(Protocol):
    """Adds to a conversation and returns the last text that it added."""

    def dialogue(self, conversation: Conversation) -> Dialogue[str]:
        """Add to the conversation."""
        ...


@dataclass(frozen=True, slots=True)
class Ending:
    """``terminate_if``: a text that ends the loop, or the conversation. ``keep``:
    whether the messages of this iteration are kept; outside loops, the message."""

    includes: str
    keep: bool = True


@dataclass(frozen=True, slots=True)
class Builder:
    """A message builder of the file: a step, and the condition that ends the
    conversation or loop."""

    step: Step
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message from a template."""

    role: str
    content: SampleTemplate

    def message(self, conversation: Conversation) -> Part:
        """Return the message without adding it."""
        return Message(role=self.role, content=conversation.render(self.content))

    def dialogue(self, conversation: Conversation) -> Dialogue[str]:
        """Add the message; sends no request."""
        yield from ()
        message = self.message(conversation)
        conversation.items.append(message)
        return text_of(message) or ""


@dataclass(frozen=True, slots=True)
class GenerateAnswer:
    """An answer of the tested model to the conversation."""

    client: ModelClient

    def dialogue(self, conversation: Conversation) -> Dialogue[str]:
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


@dataclass(frozen=True, slots=True)
class GenerateMessage:
    """A message that another model writes. It receives the conversation, unless that is
    switched off, and then the additional messages."""

    client: ModelClient
    extra: tuple[ChatMessage, ...]
    with_conversation: bool
    role: str

    def dialogue(self, conversation: Conversation) -> Dialogue[str]:
        """Send one request."""
        items = conversation.items if self.with_conversation else []
        given = input_of([*items, *(one.message(conversation) for one in self.extra)])
        (response,) = yield (
            self.client.ask(given, conversation.sample, conversation.trial),
        )
        text = self.client.read(response).text
        conversation.items.append(Message(role=self.role, content=text))
        return text


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """A column with recorded traces: a start of the conversation, or all of it."""

    name: str
    place: Place

    def read(self, sample: Sample) -> Trace:
        """Return the trace of a sample."""
        if self.name not in sample:
            what = f"trace_column: {unknown_name('column', self.name, sample)}"
            raise ColumnError(what, self.place)
        try:
            return trace_of(sample[self.name])
        except DocumentError as error:
            what = f"trace_column {self.name!r}: {error}"
            raise FieldError(what, self.place) from None

    def dialogue(self, conversation: Conversation) -> Dialogue[str]:
        """Add the trace; sends no request."""
        yield from ()
        conversation.items += self.read(conversation.sample).items
        return ""


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeats builders. ``must_end``: whether reaching the maximum is an error."""

    builders: tuple[Builder, ...]
    max_iterations: int
    must_end: bool
    place: Place

    def dialogue(self, conversation: Conversation) -> Dialogue[str]:
        """Run the loop."""
        for index in range(self.max_iterations):
            mark = conversation.mark()
            met = yield from _run(self.builders, conversation, index)
            if met is not None:
                if not met.keep:
                    conversation.back_to(mark)
                return ""
        if self.must_end and any(builder.ending for builder in self.builders):
            n = self.max_iterations
            what = f"no terminate_if was met in {n} iterations of the loop"
            fix = "raise max_iterations, or set on_max_iterations: continue"
            raise FieldError(what, self.place, fix)
        return ""


def _run(
    builders: Sequence[Builder], conversation: Conversation, loop_index: int | None
) -> Dialogue[Ending | None]:
    """Run builders in order until one meets its ending; returns that ending."""
    outer, conversation.loop_index = conversation.loop_index, loop_index
    met = None
    for builder in builders:
        mark = conversation.mark()
        text = yield from builder.step.dialogue(conversation)
        if builder.ending is not None and builder.ending.includes in text:
            met = builder.ending
            if loop_index is None and not met.keep:
                conversation.back_to(mark)
            break
    conversation.loop_index = outer
    return met


@dataclass(frozen=True, slots=True)
class MultiTurnSolver:
    """Runs message builders in order."""

    builders: tuple[Builder, ...]

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Create the conversation."""
        conversation = Conversation(sample, trial)
        yield from _run(self.builders, conversation, None)
        raw_outputs = conversation.raw_outputs
        return SolverOutput(trace=conversation.items, raw_outputs=raw_outputs)


@dataclass(frozen=True, slots=True)
class PassThroughSolver:
    """Returns the recorded trace as output."""

    column: TraceColumn

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Return the output; sends no request."""
        yield from ()
        return SolverOutput(trace=self.column.read(sample))


def read_pass_through(section: Section, _models: Models) -> PassThroughSolver:
    """Return the solver; errors are added to the problems of the section."""
    return PassThroughSolver(_trace_column(section))


def read_multi_turn(section: Section, models: Models) -> MultiTurnSolver:
    """Return the solver; errors are added to the problems of the section."""
    return MultiTurnSolver(_read_builders(section, models, _READERS))


Reader = Callable[[Section, Models], Step | None]


def _read_builders(
    section: Section, models: Models, known: Mapping[str, Reader]
) -> tuple[Builder, ...]:
    fix = "[{type: chat_message, …}, {type: generate}]"
    entries = required_entries(section, "message_builders", fix)
    builders = [_read_builder(entry, models, known) for entry in entries]
    return tuple(builder for builder in builders if builder is not None)


def _read_builder(
    entry: Section, models: Models, known: Mapping[str, Reader]
) -> Builder | None:
    kind = entry.values.get("type")
    if kind == "load_trace" and kind not in known:
        entry.problem("type", "load_trace cannot be used in a loop")
        return None
    ending = _read_ending(entry) if kind in _WITH_ENDING else None
    step = read_typed(entry, "message builder", "a message builder", known, models)
    return None if step is None else Builder(step, ending)


def _read_ending(entry: Section) -> Ending | None:
    inner = entry.section("terminate_if")
    if inner is None:
        return None
    includes = required_text(inner, "includes", "<done>")
    keep = inner.take("keep_iteration", bool, True)
    inner.close("terminate_if")
    return Ending(includes, keep)


def _chat_message(entry: Section, models: Models) -> ChatMessage | None:
    role = read_role(entry)
    content = template(entry, "content", "{{ sample.question }}")
    return None if content is None else ChatMessage(role, content)


def _generate(entry: Section, models: Models) -> GenerateAnswer:
    return GenerateAnswer(models(""))


def _generate_message(entry: Section, models: Models) -> GenerateMessage:
    fix = "[{type: chat_message, role: user, content: …}]"
    entries = required_entries(entry, "extra_input_messages", fix)
    known = {"chat_message": _chat_message}
    extra = [_read_builder(one, models, known) for one in entries]
    steps = [one.step for one in extra if one is not None]
    return GenerateMessage(
        client=model_client(entry, "model_key", models),
        extra=tuple(one for one in steps if isinstance(one, ChatMessage)),
        with_conversation=entry.take("include_conversation", bool, True),
        role=entry.one_of("output_role", "role", ROLES, "assistant"),
    )


def _trace_column(section: Section, _models: Models | None = None) -> TraceColumn:
    name = required_text(section, "trace_column", "trace")
    return TraceColumn(name, section.place("trace_column"))


def _loop(entry: Section, models: Models) -> Loop:
    known = ("error", "continue")
    return Loop(
        builders=_read_builders(entry, models, _IN_LOOPS),
        max_iterations=entry.whole("max_iterations", 0, 10),
        must_end=entry.one_of("on_max_iterations", "way", known, "error") == "error",
        place=entry.place("max_iterations"),
    )


_WITH_ENDING = ("chat_message", "generate", "generate_message")
"""Builders that may have ``terminate_if``."""
_IN_LOOPS: Mapping[str, Reader] = {
    "chat_message": _chat_message,
    "generate": _generate,
    "generate_message": _generate_message,
    "loop": _loop,
}
_READERS = dict(sorted({**_IN_LOOPS, "load_trace": _trace_column}.items()))
"""Type of a message builder → its reader."""
