"""Reads ``function_call_coverage`` scorers, which check that required functions were
called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
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
SCORES = (
    "all_required_calls_made",
    "required_calls_coverage",
    "num_required_calls_made",
    "num_required_calls_not_made",
    "num_unrequired_calls",
    "num_required_calls_total",
)


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


# The algorithm is that of ``latticeflow-core`` 3.17.0: greedy one-to-one matching,
# starting with required calls that specify arguments.
@dataclass(frozen=True, slots=True)
class Call:
    """A function call. ``arguments``: arguments by name. ``None`` matches any
    arguments in a required call, and marks invalid JSON in an actual call."""

    name: str
    arguments: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the call as JSON values."""
        if self.arguments is None:
            return {"name": self.name}
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Scores and metadata of the matched calls."""

    values: Mapping[str, Any]
    metadata: Mapping[str, Any]


def cover(
    required: Sequence[Call], made: Sequence[Call], *, in_order: bool
) -> Coverage:
    """Match actual calls with required ones.

    Args:
        required: Required calls; one that is listed twice needs two calls.
        in_order: Whether the required order matters (other calls may be in between);
            affects ``all_required_calls_made`` only.
    """
    free = list(range(len(made)))
    matched: dict[int, int] = {}
    by_arguments = sorted(
        range(len(required)), key=lambda n: required[n].arguments is None
    )
    for n in by_arguments:
        position = next((at for at in free if _matches(required[n], made[at])), None)
        if position is not None:
            matched[n] = position
            free.remove(position)
    total, hits = len(required), len(matched)
    complete = hits == total and (not in_order or _is_subsequence(required, made))
    return Coverage(
        values={
            "all_required_calls_made": complete,
            "required_calls_coverage": hits / total if total else 1.0,
            "num_required_calls_made": hits,
            "num_required_calls_not_made": total - hits,
            "num_unrequired_calls": len(made) - hits,
            "num_required_calls_total": total,
        },
        metadata={
            "required_function_calls": _to_dicts(required),
            "called_function_calls": _to_dicts(made),
            "matched_required": _to_dicts(required[n] for n in sorted(matched)),
            "unmatched_required": _to_dicts(
                call for n, call in enumerate(required) if n not in matched
            ),
        },
    )


def _to_dicts(calls: Iterable[Call]) -> list[dict[str, Any]]:
    return [call.to_dict() for call in calls]


def _matches(required: Call, made: Call) -> bool:
    if required.name != made.name:
        return False
    return required.arguments is None or required.arguments == made.arguments


def _is_subsequence(required: Sequence[Call], made: Sequence[Call]) -> bool:
    left = iter(made)
    return all(any(_matches(expected, one) for one in left) for expected in required)
