"""``function_call_coverage`` scorers, which check that required functions were called.

The algorithm is that of ``latticeflow-core`` 3.17.0: greedy one-to-one matching,
starting with required calls that specify arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.guests.latticeflow.fields import template
from pytest_evals.guests.latticeflow.metrics.reader import means_of
from pytest_evals.guests.latticeflow.prompts.items import unwrap
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.guests.latticeflow.scoring.scorer import (
    SampleScorer,
    ScorerContext,
    needs_solver,
    scoring,
    target_of,
)
from pytest_evals.guests.latticeflow.scoring.strings import parse_literal
from pytest_evals.guests.latticeflow.solvers.model_client import Sample

_MODES = ("any_order", "in_order")
_SHARES = ("all_required_calls_made", "required_calls_coverage")
SCORES = (
    *_SHARES,
    "num_required_calls_made",
    "num_required_calls_not_made",
    "num_unrequired_calls",
    "num_required_calls_total",
)


class Call(NamedTuple):
    """A function call. ``arguments``: by name. ``None`` matches any arguments in a
    required call, and marks invalid JSON in an actual call."""

    name: str
    arguments: Any = None

    def matches(self, made: Call) -> bool:
        """Return whether an actual call is this required one."""
        if self.name != made.name:
            return False
        return self.arguments is None or self.arguments == made.arguments


def read_coverage(section: Section, task: ScorerContext) -> SampleScorer | None:
    """Return the scorer; errors are added to the problems of the section."""
    fix = "{{ sample.function_calls | tojson }}"
    required = template(section, "function_calls", fix)
    in_order = section.one_of("mode", "mode", _MODES, _MODES[0]) == "in_order"
    needs_solver(section, task.has_solver)
    if required is None:
        return None

    def score(sample: Sample, output: SolverOutput | None) -> SampleScore:
        assert output is not None, "there is a solver"
        required_calls = _required(required, sample)
        made = [_actual_call(call) for call in output.trace.function_calls]
        return cover(required_calls, made, in_order=in_order)

    return SampleScorer(
        dialogue=scoring(score),
        scores=SCORES,
        shares=_SHARES,
        target=target_of(required),
        metric_values=means_of(_SHARES),
    )


def _required(template: SampleTemplate, sample: Sample) -> list[Call]:
    value = parse_literal(template, sample)
    if not isinstance(value, list | tuple):
        what = f"function_calls must be a list, not {value!r:.80}"
        raise FieldError(what, template.place, '["lookup", {"name": "book"}]')
    return [_required_call(one, template) for one in value]


def _required_call(value: Any, template: SampleTemplate) -> Call:
    if isinstance(value, str):
        return Call(value)
    known = isinstance(value, Mapping) and set(value) <= {"name", "arguments"}
    if not known or not isinstance(value.get("name"), str):
        what = f"a call must be a name, or name and arguments, not {value!r:.80}"
        raise FieldError(f"function_calls: {what}", template.place)
    return Call(value["name"], value.get("arguments"))


def _actual_call(call: Mapping[str, Any]) -> Call:
    """Return a call of the trace; arguments with invalid JSON never match."""
    try:
        arguments = json.loads(call.get("arguments") or "")
    except (TypeError, ValueError, RecursionError):
        arguments = None
    return Call(str(call.get("name")), unwrap(arguments))


def cover(
    required: Sequence[Call], made: Sequence[Call], *, in_order: bool
) -> SampleScore:
    """Match actual calls with required ones.

    Args:
        required: Required calls; one that is listed twice needs two calls.
        in_order: Whether the required order matters (other calls may be in between);
            affects ``all_required_calls_made`` only.
    """
    free = list(range(len(made)))
    matched: set[int] = set()
    for n in sorted(range(len(required)), key=lambda n: required[n].arguments is None):
        position = next((at for at in free if required[n].matches(made[at])), None)
        if position is not None:
            matched.add(n)
            free.remove(position)
    total, hits = len(required), len(matched)
    complete = hits == total and (not in_order or _is_subsequence(required, made))
    values = {
        "all_required_calls_made": complete,
        "required_calls_coverage": hits / total if total else 1.0,
        "num_required_calls_made": hits,
        "num_required_calls_not_made": total - hits,
        "num_unrequired_calls": len(made) - hits,
        "num_required_calls_total": total,
    }
    lists = {
        "required_function_calls": required,
        "called_function_calls": made,
        "matched_required": [call for n, call in enumerate(required) if n in matched],
        "unmatched_required": [
            call for n, call in enumerate(required) if n not in matched
        ],
    }
    return SampleScore(values, {key: _to_dicts(calls) for key, calls in lists.items()})


def _to_dicts(calls: Iterable[Call]) -> list[dict[str, Any]]:
    """Return calls as JSON values."""
    return [
        {key: one for key, one in call._asdict().items() if one is not None}
        for call in calls
    ]


def _is_subsequence(required: Sequence[Call], made: Sequence[Call]) -> bool:
    left = iter(made)
    return all(any(expected.matches(one) for one in left) for expected in required)
