"""Reads ``single_turn_solver`` and ``grouped_single_turn_solver``: one response per
input."""

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
from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import (
    Models,
    chat_role,
    required_text,
    template,
)
from pytest_evals.dialects.yaml_reader.section import Section

_BUILDERS = ("chat_completion", "generic")


class InputBuilder(Protocol):
    """Creates the model input of a sample."""

    def model_input(self, sample: Sample) -> Any:
        """Return the model input."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatInput:
    """A chat: roles and templates."""

    messages: tuple[tuple[str, SampleTemplate], ...]

    def model_input(self, sample: Sample) -> Any:
        """Return the chat of a sample."""
        variables = {"sample": sample}
        return {
            "messages": [
                {"role": role, "content": content.render(variables)}
                for role, content in self.messages
            ]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericInput:
    """Any JSON value, from a template."""

    template: SampleTemplate

    def model_input(self, sample: Sample) -> Any:
        """Return the JSON value of a sample.

        Raises:
            DocumentError: The rendered text is not valid JSON.
        """
        text = self.template.render({"sample": sample})
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            what = f"template must render JSON ({error}): {_shorten(text)}"
            fix = "{{ sample.question | tojson }}, without quotes around it"
            raise FieldError(what, self.template.place, fix) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTurnSolver:
    """Calls the model once."""

    client: ModelClient
    builder: InputBuilder

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Send one request."""
        model_input = self.builder.model_input(sample)
        (response,) = yield (self.client.ask(model_input, sample, trial),)
        return _output([model_input], [self.client.read(response)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedSolver:
    """Calls the model for each member of a group: a rendered list or object."""

    client: ModelClient
    builder: GenericInput

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Send the requests of all members in one round.

        Raises:
            DocumentError: The template does not render a list or object, or an empty
                one.
        """
        group = self.builder.model_input(sample)
        if not isinstance(group, list | dict) or not group:
            what = (
                "template must render a group of model inputs, not "
                f"{_shorten(json.dumps(group))}"
            )
            fix = "a JSON list, or an object, with a model input for each call"
            raise FieldError(what, self.builder.template.place, fix)
        parts = list(group.values()) if isinstance(group, dict) else group
        responses = yield [self.client.ask(one, sample, trial) for one in parts]
        read = [self.client.read(response) for response in responses]
        outputs = [_output([g], [r]) for g, r in zip(parts, read, strict=True)]
        is_object = isinstance(group, dict)
        by_name = dict(zip(group, outputs, strict=True)) if is_object else outputs
        return _output(parts, read, by_name)


def _output(
    model_input: Sequence[Any], responses: Sequence[ModelResponse], group: Any = None
) -> SolverOutput:
    items: list[Part] = []
    for one, response in zip(model_input, responses, strict=True):
        items += _input_items(one)
        items += response.items
    raw = [response.raw_output for response in responses]
    return SolverOutput(trace=items, raw_outputs=raw, solver_outputs=group)


def _input_items(model_input: Any) -> list[Part]:
    """Return a model input as items of a trace."""
    if isinstance(model_input, Mapping) and isinstance(
        model_input.get("messages"), list
    ):
        return items_of(model_input["messages"])
    return [CustomTaskInputMessage(content=model_input)]


def _shorten(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"


def read_single_turn(section: Section, models: Models) -> SingleTurnSolver | None:
    """Return the solver; errors are added to the problems of the section."""
    builder = _read_builder(section, _BUILDERS)
    if builder is None:
        return None
    return SingleTurnSolver(client=models(""), builder=builder)


def read_grouped(section: Section, models: Models) -> GroupedSolver | None:
    """Return the solver; errors are added to the problems of the section."""
    builder = _read_builder(section, ("generic",))
    if not isinstance(builder, GenericInput):
        return None
    return GroupedSolver(client=models(""), builder=builder)


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
        complete = tuple((role, text) for role, text in messages if text is not None)
        builder = ChatInput(messages=complete)
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
