"""``function_call_coverage``: which of the functions that should be called were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.latticeflow.metrics.call_coverage import SCORES, Call, cover
from pytest_evals.dialects.latticeflow.prompts.message_types import plain
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts
from pytest_evals.dialects.latticeflow.scoring.strings import listed, rendered
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines, template
from pytest_evals.dialects.yaml_reader.section import Section

_MODES = ("any_order", "in_order")


def read_coverage(section: Section, _lines: Lines, has_solver: bool) -> ScorerParts:
    """The scorer of a section; what is wrong with it are problems of the file."""
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
        wanted = _required(required, sample)
        made = [_made(call) for call in output.trace.function_calls]
        found = cover(wanted, made, in_order=in_order)
        return SampleScore(found.values, found.metadata)

    return ScorerParts(dialogue=dialogue, scores=SCORES, target=rendered(required))


def _required(template: SampleTemplate, sample: Sample) -> list[Call]:
    given = listed(template, sample)
    if not isinstance(given, list | tuple):
        what = f"function_calls gives no list: {given!r:.80}"
        raise FieldError(what, template.place, '["lookup", {"name": "book"}]')
    return [_call(one, template) for one in given]


def _call(given: Any, template: SampleTemplate) -> Call:
    if isinstance(given, str):
        return Call(given)
    known = isinstance(given, Mapping) and set(given) <= {"name", "arguments"}
    if not known or not isinstance(given.get("name"), str):
        what = (
            f"function_calls: a call is a name or name and arguments, not {given!r:.80}"
        )
        raise FieldError(what, template.place)
    return Call(given["name"], given.get("arguments"))


def _made(call: Mapping[str, Any]) -> Call:
    """A call of the trace; arguments that are no JSON never match."""
    try:
        arguments = json.loads(call.get("arguments") or "")
    except (TypeError, ValueError, RecursionError):
        arguments = None
    return Call(str(call.get("name")), plain(arguments))
