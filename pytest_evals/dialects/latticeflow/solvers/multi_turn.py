"""``multi_turn_solver``: a conversation that builders write."""

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
    Lines,
    chat_role,
    line_to,
    required_text,
    template,
)
from pytest_evals.dialects.yaml_reader.section import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTurnSolver:
    """Builders, in their order."""

    builders: tuple[Builder, ...]

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Build the conversation."""
        talk = Conversation(sample, trial)
        yield from run(self.builders, talk, None)
        return SolverOutput(trace=talk.items, raw_outputs=talk.raw_outputs)


def read_multi_turn(section: Section, lines: Lines) -> MultiTurnSolver:
    """The solver of a section; what is wrong with it are problems of the file."""
    return MultiTurnSolver(builders=_read_builders(section, lines, _READERS))


Reader = Callable[[Section, Lines], Builder | None]


def _read_builders(
    section: Section, lines: Lines, known: Mapping[str, Reader]
) -> tuple[Builder, ...]:
    entries = section.entries("message_builders")
    if not entries and not section.values.get("message_builders"):
        fix = "message_builders: [{type: chat_message, …}, {type: generate}]"
        section.problem("message_builders", "message_builders is missing", fix)
    found = (_read_builder(entry, lines, known) for entry in entries)
    return tuple(builder for builder in found if builder is not None)


def _read_builder(
    entry: Section, lines: Lines, known: Mapping[str, Reader]
) -> Builder | None:
    if entry.values.get("type") == "load_trace" and "load_trace" not in known:
        entry.problem("type", "load_trace cannot stand in a loop")
        return None
    kind = entry.one_of("type", "message builder", sorted(known), "")
    if not kind:
        return None
    builder = known[kind](entry, lines)
    entry.close(f"a message builder of type {kind}")
    return builder


def _chat_message(entry: Section, lines: Lines) -> ChatMessage | None:
    role = "user"
    if required_text(entry, "role", "user"):
        role = chat_role(entry, "role", role)
    ending = _read_ending(entry)
    content = template(entry, "content", "{{ sample.question }}")
    if content is None:
        return None
    return ChatMessage(role=role, content=content, ending=ending)


def _generate(entry: Section, lines: Lines) -> GenerateAnswer:
    return GenerateAnswer(line=lines(""), ending=_read_ending(entry))


def _generate_message(entry: Section, lines: Lines) -> GenerateMessage:
    extra: list[ChatMessage] = []
    entries = entry.entries("extra_input_messages")
    if not entries and not entry.values.get("extra_input_messages"):
        fix = "extra_input_messages: [{type: chat_message, role: user, content: …}]"
        entry.problem("extra_input_messages", "extra_input_messages is missing", fix)
    for one in entries:
        message = _read_builder(one, lines, {"chat_message": _chat_message})
        if isinstance(message, ChatMessage):
            extra.append(message)
    return GenerateMessage(
        line=line_to(entry, "model_key", lines),
        extra=tuple(extra),
        with_conversation=entry.take("include_conversation", bool, True),
        role=chat_role(entry, "output_role", "assistant"),
        ending=_read_ending(entry),
    )


def _load_trace(entry: Section, lines: Lines) -> LoadTrace:
    return LoadTrace(column=read_trace_column(entry))


def _loop(entry: Section, lines: Lines) -> Loop:
    known = ("error", "continue")
    place = entry.place("max_iterations")
    return Loop(
        builders=_read_builders(entry, lines, _IN_LOOPS),
        most=entry.whole("max_iterations", 0, 10),
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
