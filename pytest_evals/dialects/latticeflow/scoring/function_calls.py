"""Reads ``function_call_coverage`` scorers, which check that required functions were
called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.latticeflow.metrics.call_coverage import SCORES, Call, cover
from pytest_evals.dialects.latticeflow.prompts.message_types import unwrap
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts
from pytest_evals.dialects.latticeflow.scoring.strings import parse_literal, target_from
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import Models, template
from pytest_evals.dialects.yaml_reader.section import Section

_MODES = ("any_order", "in_order")


def read_coverage(section: Section, _models: Models, has_solver: bool) -> ScorerParts:
    """Return the scorer; errors are added to the problems of the section."""
    required = template(
        section, "function_calls", "{{ sample.function_calls | tojson }}"
    )
    in_order = section.one_of("mode", "mode", _MODES, _MODES[0]) == "in_order"
    if not has_solver:
        section.problem("type", "function_call_coverage needs a task with a solver")
    if required is None:
        return ScorerParts()

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        yield from ()
        assert output is not None, "there is a solver"
        required_calls = _required(required, sample)
        calls = [_actual_call(call) for call in output.trace.function_calls]
        coverage = cover(required_calls, calls, in_order=in_order)
        return SampleScore(coverage.values, coverage.metadata)

    return ScorerParts(dialogue=dialogue, scores=SCORES, target=target_from(required))


def _required(template: SampleTemplate, sample: Sample) -> list[Call]:
    value = parse_literal(template, sample)
    if not isinstance(value, list | tuple):
        what = f"function_calls must be a list, not {value!r:.80}"
        raise FieldError(what, template.place, '["lookup", {"name": "book"}]')
    return [_call(one, template) for one in value]


def _call(value: Any, template: SampleTemplate) -> Call:
    if isinstance(value, str):
        return Call(value)
    known = isinstance(value, Mapping) and set(value) <= {"name", "arguments"}
    if not known or not isinstance(value.get("name"), str):
        what = (
            "function_calls: a call must be a name, or name and arguments, "
            f"not {value!r:.80}"
        )
        raise FieldError(what, template.place)
    return Call(value["name"], value.get("arguments"))


def _actual_call(call: Mapping[str, Any]) -> Call:
    """Return a call of the trace; arguments with invalid JSON never match."""
    try:
        arguments = json.loads(call.get("arguments") or "")
    except (TypeError, ValueError, RecursionError):
        arguments = None
    return Call(str(call.get("name")), unwrap(arguments))
