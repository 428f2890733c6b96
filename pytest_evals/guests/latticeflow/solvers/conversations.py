"""Conversations: ``multi_turn_solver``, which message builders create, and
``pass_through_solver``, a recorded one. ``_READERS`` has all types of message builders.

Not specified by LatticeFlow's documentation: ``terminate_if`` ends the innermost loop,
or the conversation outside loops; ``loop_index`` counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import ColumnError, FieldError
from pytest_evals.errors import DocumentError, unknown_name
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.prompts.items import Message, Part, text_of
from pytest_evals.guests.latticeflow.prompts.output import ModelResponse, SolverOutput
from pytest_evals.guests.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.guests.latticeflow.prompts.trace import Trace, trace_of
from pytest_evals.guests.latticeflow.solvers.model_client import (
    ROLES,
    ModelClient,
    Models,
    Sample,
    Solver,
    input_of,
    model_client,
)


@dataclass(slots=True)
class Conversation:
    """A conversation under construction."""

    sample: Sample
    trial: int
    items: list[Part] = field(default_factory=list)
    raw_outputs: list[Any] = field(default_factory=list)  # of the tested model
    loop_index: int | None = None  # iteration of the innermost loop

    def message(self, role: str, content: SampleTemplate) -> Part:
        """Return a message from a template, without adding it."""
        messages = SolverOutput(trace=self.items).messages
        variables: dict[str, Any] = {"sample": self.sample, "messages": messages}
        if self.loop_index is not None:
            variables["loop_index"] = self.loop_index
        return Message(role=role, content=content.render(variables))

    def ask(
        self, client: ModelClient, items: Sequence[Part]
    ) -> Dialogue[ModelResponse]:
        """Send items to a model."""
        (response,) = yield (client.ask(input_of(items), self.sample, self.trial),)
        return client.read(response)


Step = Callable[[Conversation], Dialogue[str]]
"""Adds to a conversation and returns the last text that it added."""


class Ending(NamedTuple):
    """``terminate_if``: a text that ends the loop, or the conversation. ``keep``:
    whether the messages of this iteration are kept; outside loops, the message."""

    includes: str
    keep: bool = True


Builder = tuple[Step, Ending | None]
"""A message builder of the file, and what ends the conversation or loop after it."""


def _run(
    builders: Sequence[Builder], conversation: Conversation, loop_index: int | None
) -> Dialogue[bool]:
    """Run builders in order until one meets its ending; return whether one did."""
    outer, conversation.loop_index = conversation.loop_index, loop_index
    items, raw_outputs = conversation.items, conversation.raw_outputs
    lengths, is_met = (len(items), len(raw_outputs)), False
    for step, ending in builders:
        if loop_index is None:
            lengths = len(items), len(raw_outputs)
        text = yield from step(conversation)
        if ending is not None and ending.includes in text:
            is_met = True
            if not ending.keep:
                del items[lengths[0] :]
                del raw_outputs[lengths[1] :]
            break
    conversation.loop_index = outer
    return is_met


def read_pass_through(section: Keys, _models: Models) -> Solver:
    """Return a solver whose output is the recorded trace."""
    recorded = _trace_column(section)

    def solve(sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        yield from ()
        return SolverOutput(trace=recorded(sample))

    return solve


def read_multi_turn(section: Keys, models: Models) -> Solver:
    """Return a solver that runs message builders in order."""
    builders = _read_builders(section, models, _READERS)

    def solve(sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        conversation = Conversation(sample, trial)
        yield from _run(builders, conversation, None)
        raw_outputs = conversation.raw_outputs
        return SolverOutput(trace=conversation.items, raw_outputs=raw_outputs)

    return solve


def read_chat_message(entry: Keys) -> tuple[str, SampleTemplate]:
    """Return the role and the content of a message."""
    role = "user"
    if entry.required_text("role", "user"):
        role = entry.one_of("role", "role", ROLES, role)
    return role, entry.template("content", "{{ sample.question }}")


Reader = Callable[[Keys, Models], Step]


def _read_builders(
    section: Keys, models: Models, known: Mapping[str, Reader]
) -> list[Builder]:
    builders: list[Builder] = []
    fix = "[{type: chat_message, …}, {type: generate}]"
    for entry in section.required_entries("message_builders", fix):
        kind, readers = entry.values.get("type"), known
        if kind == "load_trace" and kind not in known:
            entry.problem("type", "load_trace cannot be used in a loop")
            readers = _READERS
        ending = _read_ending(entry) if kind in _WITH_ENDING else None
        step = entry.typed("message builder", "a message builder", readers, models)
        builders.append((step, ending))
    return builders


def _read_ending(entry: Keys) -> Ending | None:
    inner = entry.section("terminate_if")
    if inner is None:
        return None
    includes = inner.required_text("includes", "<done>")
    keep = inner.take("keep_iteration", bool, True)
    inner.close("terminate_if")
    return Ending(includes, keep)


def _chat_message(entry: Keys, _models: Models) -> Step:
    role, content = read_chat_message(entry)

    def step(conversation: Conversation) -> Dialogue[str]:
        yield from ()
        message = conversation.message(role, content)
        conversation.items.append(message)
        return text_of(message) or ""

    return step


def _generate(_entry: Keys, models: Models) -> Step:
    client = models("")

    def step(conversation: Conversation) -> Dialogue[str]:
        reply = yield from conversation.ask(client, conversation.items)
        conversation.items += reply.items
        conversation.raw_outputs.append(reply.raw_output)
        texts = [text_of(item) for item in reply.items if item["type"] == "message"]
        return "\n".join(text for text in texts if text is not None)

    return step


def _generate_message(entry: Keys, models: Models) -> Step:
    """Read a message that another model writes. It receives the conversation, unless
    that is switched off, and then the additional messages."""
    fix = "[{type: chat_message, role: user, content: …}]"
    entries = entry.required_entries("extra_input_messages", fix)
    extra = []
    for one in entries:
        _read_ending(one)  # accepted, without effect
        known = {"chat_message": read_chat_message}
        extra.append(one.typed("message builder", "a message builder", known))
    client = model_client(entry, "model_key", models)
    with_conversation = entry.take("include_conversation", bool, True)
    role = entry.one_of("output_role", "role", ROLES, "assistant")

    def step(conversation: Conversation) -> Dialogue[str]:
        items = [*conversation.items] if with_conversation else []
        items += [conversation.message(*one) for one in extra]
        reply = yield from conversation.ask(client, items)
        text = reply.text
        conversation.items.append(Message(role=role, content=text))
        return text

    return step


def _load_trace(entry: Keys, _models: Models) -> Step:
    recorded = _trace_column(entry)

    def step(conversation: Conversation) -> Dialogue[str]:
        yield from ()
        conversation.items += recorded(conversation.sample).items
        return ""

    return step


def _trace_column(section: Keys) -> Callable[[Sample], Trace]:
    name = section.required_text("trace_column", "trace")
    place = section.place("trace_column")

    def recorded(sample: Sample) -> Trace:
        if name not in sample:
            message = f"trace_column: {unknown_name('column', name, sample)}"
            raise ColumnError(message, place)
        try:
            return trace_of(sample[name])
        except DocumentError as error:
            message = f"trace_column {name!r}: {error}"
            raise FieldError(message, place) from None

    return recorded


def _loop(entry: Keys, models: Models) -> Step:
    """Read a loop; reaching the maximum is an error, unless it is switched off."""
    builders = _read_builders(entry, models, _IN_LOOPS)
    n, place = entry.whole("max_iterations", 0, 10), entry.place("max_iterations")
    known = ("error", "continue")
    on_maximum = entry.one_of("on_max_iterations", "way", known, "error")

    def step(conversation: Conversation) -> Dialogue[str]:
        for index in range(n):
            if (yield from _run(builders, conversation, index)):
                return ""
        if on_maximum == "error" and any(ending for _, ending in builders):
            message = f"no terminate_if was met in {n} iterations of the loop"
            fix = "raise max_iterations, or set on_max_iterations: continue"
            raise FieldError(message, place, fix)
        return ""

    return step


_WITH_ENDING = ("chat_message", "generate", "generate_message")
"""Builders that may have ``terminate_if``."""
_IN_LOOPS: Mapping[str, Reader] = {
    "chat_message": _chat_message,
    "generate": _generate,
    "generate_message": _generate_message,
    "loop": _loop,
}
_READERS = dict(sorted({**_IN_LOOPS, "load_trace": _load_trace}.items()))
"""Type of a message builder → its reader."""
