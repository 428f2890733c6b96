"""Reads a task's ``solver``; ``_READERS`` has all types. Those that call the model once
are here: ``single_turn_solver`` with one input, and ``grouped_single_turn_solver`` with
several. ``_BUILDERS`` has all types of input builders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.errors import abbreviated
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.prompts.items import (
    CustomTaskInputMessage,
    Part,
    items_of,
)
from pytest_evals.guests.latticeflow.prompts.output import ModelResponse, SolverOutput
from pytest_evals.guests.latticeflow.solvers import conversations, python
from pytest_evals.guests.latticeflow.solvers.model_client import (
    Models,
    Sample,
    Solver,
    recording,
)

Build = Callable[[Sample], Any]  # Sample → model input: a chat, or any JSON value


def _read_turn(section: Keys, models: Models, *, is_group: bool = False) -> Solver:
    """Return a solver that calls the model once; or for each member of a group, in one
    round. A group is a rendered list or object."""
    fix = "{type: chat_completion, input_messages: […]}"
    inner = section.required_section("input_builder", fix)
    known = {"generic": _BUILDERS["generic"]} if is_group else _BUILDERS
    build = inner.typed("input builder", "an input builder", known)
    client, place = models(""), inner.file.place(*inner.steps, "template")

    def solve(sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        group = build(sample) if is_group else [build(sample)]
        if not isinstance(group, list | dict) or not group:
            shown = abbreviated(json.dumps(group), 300)
            message = f"template must render a group of model inputs, not {shown}"
            fix = "a JSON list, or an object, with a model input for each call"
            raise FieldError(message, place, fix)
        parts = list(group.values()) if isinstance(group, dict) else group
        responses = yield [client.ask(one, sample, trial) for one in parts]
        read = [client.read(response) for response in responses]
        outputs = [_output([g], [r]) for g, r in zip(parts, read, strict=True)]
        if not is_group:
            return outputs[0]
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


def _generic(section: Keys) -> Build:
    template = section.template("template", '{"messages": […]}')

    def build(sample: Sample) -> Any:
        text = template.for_sample(sample)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            message = f"template must render JSON ({error}): {abbreviated(text, 300)}"
            fix = "{{ sample.question | tojson }}, without quotes around it"
            raise FieldError(message, template.place, fix) from None

    return build


def _chat_completion(section: Keys) -> Build:
    section.need("input_messages", "[{role: user, content: …}]")
    messages = []
    for entry in section.entries("input_messages"):
        messages.append(conversations.read_chat_message(entry))
        entry.close("an input message")

    def build(sample: Sample) -> Any:
        chat = [
            {"role": role, "content": content.for_sample(sample)}
            for role, content in messages
        ]
        return {"messages": chat}

    return build


_BUILDERS: Mapping[str, Callable[[Keys], Build]] = {
    "chat_completion": _chat_completion,
    "generic": _generic,
}

_FORMATS = ("latticeflow", "open_responses")
_READERS: Mapping[str, Callable[[Keys, Models], Solver]] = {
    "grouped_single_turn_solver": partial(_read_turn, is_group=True),
    "multi_turn_solver": conversations.read_multi_turn,
    "pass_through_solver": conversations.read_pass_through,
    "python": python.read_python,
    "single_turn_solver": _read_turn,
}


class SolverParts(NamedTuple):
    """The ``solver`` section of a task."""

    solve: Solver
    postprocess: python.Postprocess | None  # turns an output into rows
    models: frozenset[str]  # keys of models it may call; the tested model's is empty
    is_single_round: bool = False
    is_declared: bool = False  # requests depend on the file only, not on code


def read_solver(section: Keys, models: Models) -> SolverParts:
    """Return the solver of a task."""
    kind = str(section.values.get("type"))
    postprocess = None
    if kind in _READERS:
        # Both message formats are accepted everywhere.
        section.one_of("message_format", "message format", _FORMATS, _FORMATS[1])
        postprocess = python.read_postprocessor(section)
    called: set[str] = set()
    solver = section.typed("solver", "a solver", _READERS, recording(models, called))
    return SolverParts(
        solver,
        postprocess,
        frozenset(called),
        is_single_round=kind.endswith("single_turn_solver") or not called,
        is_declared=kind != "python",
    )
