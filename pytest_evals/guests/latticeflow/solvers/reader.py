"""Reads a task's ``solver``; ``_READERS`` has all types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pytest_evals.guests.latticeflow.fields import Fields
from pytest_evals.guests.latticeflow.solvers.conversations import (
    read_multi_turn,
    read_pass_through,
)
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient, Models
from pytest_evals.guests.latticeflow.solvers.python import (
    Postprocess,
    read_postprocessor,
    read_python,
)
from pytest_evals.guests.latticeflow.solvers.single_turn import (
    Solver,
    read_grouped,
    read_single_turn,
)

_FORMATS = ("latticeflow", "open_responses")
_READERS: Mapping[str, Callable[[Fields, Models], Solver]] = {
    "grouped_single_turn_solver": read_grouped,
    "multi_turn_solver": read_multi_turn,
    "pass_through_solver": read_pass_through,
    "python": read_python,
    "single_turn_solver": read_single_turn,
}


class SolverParts(NamedTuple):
    """The ``solver`` section of a task."""

    solve: Solver
    postprocess: Postprocess | None  # turns an output into rows
    models: frozenset[str]  # keys of models it may call; the tested model's is empty
    is_single_round: bool = False
    is_declared: bool = False  # requests depend on the file only, not on code

    @property
    def is_conversation(self) -> bool:
        """Whether later requests contain earlier responses."""
        return self.is_declared and not self.is_single_round


def read_solver(section: Fields, models: Models) -> SolverParts:
    """Return the solver of a task; errors are added to the problems of the section."""
    kind = str(section.values.get("type"))
    postprocess = None
    if kind in _READERS:
        # Both message formats are accepted everywhere.
        section.one_of("message_format", "message format", _FORMATS, _FORMATS[1])
        postprocess = read_postprocessor(section)
    called: set[str] = set()

    def record_model(key: str) -> ModelClient:
        called.add(key)
        return models(key)

    solver = section.typed("solver", "a solver", _READERS, record_model)
    return SolverParts(
        solver,
        postprocess,
        frozenset(called),
        is_single_round=kind.endswith("single_turn_solver") or not called,
        is_declared=kind != "python",
    )
