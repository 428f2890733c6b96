"""Reads ``multi_turn_solver``: a conversation that message builders create."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.solvers.builders import (
    Builder,
    ChatMessage,
    Conversation,
    Ending,
    GenerateAnswer,
    GenerateMessage,
    LoadTrace,
    Loop,
    run,
)
from pytest_evals.dialects.latticeflow.solvers.pass_through import read_trace_column
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import (
    Models,
    chat_role,
    model_client,
    required_text,
    template,
)
from pytest_evals.dialects.yaml_reader.section import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTurnSolver:
    """Runs message builders in order."""

    builders: tuple[Builder, ...]

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Create the conversation."""
        conversation = Conversation(sample, trial)
        yield from run(self.builders, conversation, None)
        return SolverOutput(
            trace=conversation.items, raw_outputs=conversation.raw_outputs
        )


def read_multi_turn(section: Section, models: Models) -> MultiTurnSolver:
    """Return the solver; errors are added to the problems of the section."""
    return MultiTurnSolver(builders=_read_builders(section, models, _READERS))


Reader = Callable[[Section, Models], Builder | None]


def _read_builders(
    section: Section, models: Models, known: Mapping[str, Reader]
) -> tuple[Builder, ...]:
    entries = section.entries("message_builders")
    if not entries and not section.values.get("message_builders"):
        fix = "message_builders: [{type: chat_message, …}, {type: generate}]"
        section.problem("message_builders", "message_builders is missing", fix)
    builders_ = (_read_builder(entry, models, known) for entry in entries)
    return tuple(builder for builder in builders_ if builder is not None)


def _read_builder(
    entry: Section, models: Models, known: Mapping[str, Reader]
) -> Builder | None:
    if entry.values.get("type") == "load_trace" and "load_trace" not in known:
        entry.problem("type", "load_trace cannot be used in a loop")
        return None
    kind = entry.one_of("type", "message builder", sorted(known), "")
    if not kind:
        return None
    builder = known[kind](entry, models)
    entry.close(f"a message builder of type {kind}")
    return builder


def _chat_message(entry: Section, models: Models) -> ChatMessage | None:
    role = "user"
    if required_text(entry, "role", "user"):
        role = chat_role(entry, "role", role)
    ending = _read_ending(entry)
    content = template(entry, "content", "{{ sample.question }}")
    if content is None:
        return None
    return ChatMessage(role=role, content=content, ending=ending)


def _generate(entry: Section, models: Models) -> GenerateAnswer:
    return GenerateAnswer(client=models(""), ending=_read_ending(entry))


def _generate_message(entry: Section, models: Models) -> GenerateMessage:
    extra: list[ChatMessage] = []
    entries = entry.entries("extra_input_messages")
    if not entries and not entry.values.get("extra_input_messages"):
        fix = "extra_input_messages: [{type: chat_message, role: user, content: …}]"
        entry.problem("extra_input_messages", "extra_input_messages is missing", fix)
    for one in entries:
        message = _read_builder(one, models, {"chat_message": _chat_message})
        if isinstance(message, ChatMessage):
            extra.append(message)
    return GenerateMessage(
        client=model_client(entry, "model_key", models),
        extra=tuple(extra),
        with_conversation=entry.take("include_conversation", bool, True),
        role=chat_role(entry, "output_role", "assistant"),
        ending=_read_ending(entry),
    )


def _load_trace(entry: Section, models: Models) -> LoadTrace:
    return LoadTrace(column=read_trace_column(entry))


def _loop(entry: Section, models: Models) -> Loop:
    known = ("error", "continue")
    place = entry.place("max_iterations")
    return Loop(
        builders=_read_builders(entry, models, _IN_LOOPS),
        max_iterations=entry.whole("max_iterations", 0, 10),
        must_end=entry.one_of("on_max_iterations", "way", known, "error") == "error",
        place=place,
    )


def _read_ending(entry: Section) -> Ending | None:
    inner = entry.section("terminate_if")
    if inner is None:
        return None
    includes = required_text(inner, "includes", "<done>")
    keep = inner.take("keep_iteration", bool, True)
    inner.close("terminate_if")
    return Ending(includes=includes, keep=keep)


_IN_LOOPS: Mapping[str, Reader] = {
    "chat_message": _chat_message,
    "generate": _generate,
    "generate_message": _generate_message,
    "loop": _loop,
}
_READERS: Mapping[str, Reader] = {**_IN_LOOPS, "load_trace": _load_trace}
