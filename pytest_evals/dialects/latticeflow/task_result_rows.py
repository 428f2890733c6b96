"""Rows that are results of an earlier task (``source: task_result``).

No state is passed between the two tasks. Documents of the later task repeat the earlier
one's work first; its requests are already cached or part of the same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.prompts.message_types import wrap
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.errors import DocumentError

COLUMNS = ("sample", "sample_id", "solver_output", "scores", "errors")
"""Columns of such rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTask:
    """A task whose results are samples of another one.

    Args:
        sample: Position among its samples → the later task's sample.
        asks: Whether it calls a model.
    """

    sample: Callable[[int], Dialogue[Mapping[str, Any]]]
    asks: bool


def result_row(
    row: Mapping[str, Any],
    output: SolverOutput | None,
    scores: Mapping[str, SampleScore | DocumentError],
    errors: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Return a row with all of ``COLUMNS``; errors of the earlier task are part of the
    row.

    Args:
        row: Sample and id.
        output: Output of the solver, or ``None``.
        scores: Key of a scorer → its score or its error.
    """
    error_entries = [{"stage": "solver", "message": error} for error in errors]
    error_entries += [
        {"stage": "score", "scorer_key": key, "message": str(one)}
        for key, one in scores.items()
        if isinstance(one, DocumentError)
    ]
    score_values = {
        key: one.to_dict()
        for key, one in scores.items()
        if isinstance(one, SampleScore)
    }
    solver_output = (
        None if output is None else {**output.to_dict(), **_output_views(output)}
    )
    more = {
        "solver_output": solver_output,
        "scores": score_values,
        "errors": error_entries,
    }
    result: Mapping[str, Any] = wrap({**row, **more})
    return result


def _output_views(output: SolverOutput) -> Mapping[str, Any]:
    """Return an output's parts by the names that both versions of the format use."""
    return {"output": output.output, "messages": output.messages}
