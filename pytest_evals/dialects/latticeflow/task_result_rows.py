"""The rows that a task makes of the work of an earlier one: ``source: task_result``.

Nothing is kept between the two. The later task's documents do the earlier one's work
again before their own: what that asks is asked already, and answered by the same batch
or from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.prompts.message_types import wrapped
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.errors import DocumentError

COLUMNS = ("sample", "sample_id", "solver_output", "scores", "errors")
"""Of such rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTask:
    """A task whose work another one looks at.

    Args:
        sample: Position among its samples → the later task's sample.
        asks: Whether it asks any model.
    """

    sample: Callable[[int], Dialogue[Mapping[str, Any]]]
    asks: bool


def later_row(
    row: Mapping[str, Any],
    output: SolverOutput | None,
    scores: Mapping[str, SampleScore | DocumentError],
    errors: Sequence[str] = (),
) -> Mapping[str, Any]:
    """A row with all of ``COLUMNS``; what went wrong is in it, and is no fault of it.

    Args:
        row: Sample and id.
        output: What the solver gave, ``None`` for nothing.
        scores: Key of a scorer → what it says, or why it says nothing.
        errors: Why there is no output.
    """
    told = [{"stage": "solver", "message": error} for error in errors]
    told += [
        {"stage": "score", "scorer_key": key, "message": str(one)}
        for key, one in scores.items()
        if isinstance(one, DocumentError)
    ]
    said = {
        key: one.to_dict()
        for key, one in scores.items()
        if isinstance(one, SampleScore)
    }
    given = None if output is None else {**output.to_dict(), **_views(output)}
    more = {"solver_output": given, "scores": said, "errors": told}
    made: Mapping[str, Any] = wrapped({**row, **more})
    return made


def _views(output: SolverOutput) -> Mapping[str, Any]:
    """What both dialects call parts of an output."""
    return {"output": output.output, "messages": output.messages}
