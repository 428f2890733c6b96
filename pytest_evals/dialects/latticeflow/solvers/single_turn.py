"""One question, one answer: ``single_turn_solver`` and its grouped kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.latticeflow.prompts.items import items_of
from pytest_evals.dialects.latticeflow.prompts.message_types import (
    CustomTaskInputMessage,
    Part,
)
from pytest_evals.dialects.latticeflow.prompts.output import ModelResponse, SolverOutput
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.latticeflow.solvers.template_fields import (
    Lines,
    chat_role,
    required_text,
    template,
)
from pytest_evals.dialects.yaml_reader.section import Section

_BUILDERS = ("chat_completion", "generic")


class InputBuilder(Protocol):
    """Whatever makes a model input of a sample."""

    def given(self, sample: Sample) -> Any:
        """The model input.

        Raises:
            DocumentError: It cannot be made.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatInput:
    """A chat: roles and templates."""

    messages: tuple[tuple[str, SampleTemplate], ...]

    def given(self, sample: Sample) -> Any:
        """The chat of a sample."""
        variables = {"sample": sample}
        return {
            "messages": [
                {"role": role, "content": content.render(variables)}
                for role, content in self.messages
            ]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericInput:
    """Any JSON, by a template."""

    template: SampleTemplate

    def given(self, sample: Sample) -> Any:
        """The JSON of a sample.

        Raises:
            DocumentError: The rendered text is none.
        """
        text = self.template.render({"sample": sample})
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            what = f"template gives no JSON ({error}): {_shown(text)}"
            fix = "{{ sample.question | tojson }}, without quotes around it"
            raise FieldError(what, self.template.place, fix) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTurnSolver:
    """One call of the model."""

    line: SolverChain
    builder: InputBuilder

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Ask once."""
        given = self.builder.given(sample)
        (response,) = yield (self.line.ask(given, sample, trial),)
        return _output([given], [self.line.read(response)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedSolver:
    """A call for each part of a group, which a template gives as a list or object."""

    line: SolverChain
    builder: GenericInput

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Ask for each part, all at once.

        Raises:
            DocumentError: The template gives no list and no object, or an empty one.
        """
        group = self.builder.given(sample)
        if not isinstance(group, list | dict) or not group:
            what = (
                f"template gives no group of model inputs: {_shown(json.dumps(group))}"
            )
            fix = "a JSON list, or an object, with a model input for each call"
            raise FieldError(what, self.builder.template.place, fix)
        parts = list(group.values()) if isinstance(group, dict) else group
        responses = yield [self.line.ask(one, sample, trial) for one in parts]
        read = [self.line.read(response) for response in responses]
        outputs = [_output([g], [r]) for g, r in zip(parts, read, strict=True)]
        keyed = isinstance(group, dict)
        by_name = dict(zip(group, outputs, strict=True)) if keyed else outputs
        return _output(parts, read, by_name)


def _output(
    given: Sequence[Any], responses: Sequence[ModelResponse], group: Any = None
) -> SolverOutput:
    items: list[Part] = []
    for one, response in zip(given, responses, strict=True):
        items += _asked(one)
        items += response.items
    raw = [response.raw_output for response in responses]
    return SolverOutput(trace=items, raw_outputs=raw, solver_outputs=group)


def _asked(given: Any) -> list[Part]:
    """What the model was given, as items of a trace."""
    if isinstance(given, Mapping) and isinstance(given.get("messages"), list):
        return items_of(given["messages"])
    return [CustomTaskInputMessage(content=given)]


def _shown(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"


def read_single_turn(section: Section, lines: Lines) -> SingleTurnSolver | None:
    """The solver of a section; what is wrong with it are problems of the file."""
    builder = _read_builder(section, _BUILDERS)
    if builder is None:
        return None
    return SingleTurnSolver(line=lines(""), builder=builder)


def read_grouped(section: Section, lines: Lines) -> GroupedSolver | None:
    """The solver of a section; what is wrong with it are problems of the file."""
    builder = _read_builder(section, ("generic",))
    if not isinstance(builder, GenericInput):
        return None
    return GroupedSolver(line=lines(""), builder=builder)


def _read_builder(section: Section, known: Sequence[str]) -> InputBuilder | None:
    inner = section.section("input_builder")
    if inner is None:
        if section.values.get("input_builder") is None:
            fix = "input_builder: {type: chat_completion, input_messages: […]}"
            section.problem("input_builder", "input_builder is missing", fix)
        return None
    kind = inner.one_of("type", "input builder", known, "")
    builder: InputBuilder | None = None
    if kind == "generic":
        source = template(inner, "template", '{"messages": […]}')
        builder = None if source is None else GenericInput(template=source)
    elif kind == "chat_completion":
        if inner.values.get("input_messages") is None:
            fix = "input_messages: [{role: user, content: …}]"
            inner.problem("input_messages", "input_messages is missing", fix)
        messages = tuple(_read_message(one) for one in inner.entries("input_messages"))
        kept = tuple((role, text) for role, text in messages if text is not None)
        builder = ChatInput(messages=kept)
    if kind:
        inner.close(f"an input builder of type {kind}")
    return builder


def _read_message(entry: Section) -> tuple[str, SampleTemplate | None]:
    if required_text(entry, "role", "user"):
        role = chat_role(entry, "role", "user")
    else:
        role = "user"
    content = template(entry, "content", "{{ sample.question }}")
    entry.close("an input message")
    return role, content
