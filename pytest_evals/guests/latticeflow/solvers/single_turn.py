"""Solvers that call the model once: ``single_turn_solver`` with one input, and
``grouped_single_turn_solver`` with several. ``_BUILDERS`` has all types of input
builders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.errors import abbreviated
from pytest_evals.guests.latticeflow.fields import Fields
from pytest_evals.guests.latticeflow.prompts.items import (
    CustomTaskInputMessage,
    Part,
    items_of,
)
from pytest_evals.guests.latticeflow.prompts.output import ModelResponse, SolverOutput
from pytest_evals.guests.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.guests.latticeflow.solvers.model_client import Models, Sample

ROLES = ("system", "user", "assistant")
"""Roles of messages in task files."""
Solver = Callable[[Sample, int], Dialogue[SolverOutput]]
"""A sample, which is never modified, and the number of the trial → the output."""
Build = Callable[[Sample], Any]
"""Sample → model input: a chat, or any JSON value."""


def read_single_turn(section: Fields, models: Models) -> Solver:
    """Return a solver that calls the model once."""
    build, client = _read_input_builder(section, _BUILDERS), models("")

    def solve(sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        model_input = build(sample)
        (response,) = yield (client.ask(model_input, sample, trial),)
        return _output([model_input], [client.read(response)])

    return solve


def read_grouped(section: Fields, models: Models) -> Solver:
    """Return a solver that calls the model for each member of a group, in one round. A
    group is a rendered list or object."""
    build = _read_input_builder(section, {"generic": _BUILDERS["generic"]})
    client = models("")
    place = section.file.place(*section.steps, "input_builder", "template")

    def solve(sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        group = build(sample)
        if not isinstance(group, list | dict) or not group:
            shown = abbreviated(json.dumps(group), 300)
            what = f"template must render a group of model inputs, not {shown}"
            fix = "a JSON list, or an object, with a model input for each call"
            raise FieldError(what, place, fix)
        parts = list(group.values()) if isinstance(group, dict) else group
        responses = yield [client.ask(one, sample, trial) for one in parts]
        read = [client.read(response) for response in responses]
        outputs = [_output([g], [r]) for g, r in zip(parts, read, strict=True)]
        is_object = isinstance(group, dict)
        by_name = dict(zip(group, outputs, strict=True)) if is_object else outputs
        return _output(parts, read, by_name)

    return solve


def _output(
    inputs: Sequence[Any], responses: Sequence[ModelResponse], group: Any = None
) -> SolverOutput:
    items: list[Part] = []
    for one, response in zip(inputs, responses, strict=True):
        if isinstance(one, Mapping) and isinstance(one.get("messages"), list):
            items += items_of(one["messages"])
        else:
            items.append(CustomTaskInputMessage(content=one))
        items += response.items
    raw = [response.raw_output for response in responses]
    return SolverOutput(trace=items, raw_outputs=raw, solver_outputs=group)


def _read_input_builder(
    section: Fields, known: Mapping[str, Callable[[Fields], Build]]
) -> Build:
    fix = "{type: chat_completion, input_messages: […]}"
    inner = section.required_section("input_builder", fix)
    return inner.typed("input builder", "an input builder", known)


def _generic(section: Fields) -> Build:
    return partial(_json_value, section.template("template", '{"messages": […]}'))


def _json_value(template: SampleTemplate, sample: Sample) -> Any:
    text = template.render({"sample": sample})
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        what = f"template must render JSON ({error}): {abbreviated(text, 300)}"
        fix = "{{ sample.question | tojson }}, without quotes around it"
        raise FieldError(what, template.place, fix) from None


def _chat_completion(section: Fields) -> Build:
    section.need("input_messages", "[{role: user, content: …}]")
    entries = section.entries("input_messages")
    messages = [_read_message(one) for one in entries]

    def build(sample: Sample) -> Any:
        chat = [
            {"role": role, "content": content.render({"sample": sample})}
            for role, content in messages
        ]
        return {"messages": chat}

    return build


def _read_message(entry: Fields) -> tuple[str, SampleTemplate]:
    message = read_chat_message(entry)
    entry.close("an input message")
    return message


def read_chat_message(entry: Fields) -> tuple[str, SampleTemplate]:
    """Return the role and the content of a message."""
    return read_role(entry), entry.template("content", "{{ sample.question }}")


def read_role(entry: Fields) -> str:
    """Return the required role of a message."""
    if not entry.required_text("role", "user"):
        return "user"
    return entry.one_of("role", "role", ROLES, "user")


_BUILDERS: Mapping[str, Callable[[Fields], Build]] = {
    "chat_completion": _chat_completion,
    "generic": _generic,
}
