"""Reads a task's ``solver``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient
from pytest_evals.dialects.latticeflow.solvers.multi_turn import read_multi_turn
from pytest_evals.dialects.latticeflow.solvers.pass_through import read_pass_through
from pytest_evals.dialects.latticeflow.solvers.python import (
    Postprocessor,
    read_postprocessor,
    read_python,
)
from pytest_evals.dialects.latticeflow.solvers.single_turn import (
    read_grouped,
    read_single_turn,
)
from pytest_evals.dialects.latticeflow.solvers.solver import Solver
from pytest_evals.dialects.latticeflow.solvers.template_fields import Models
from pytest_evals.dialects.yaml_reader.section import Section

_FORMATS = ("latticeflow", "open_responses")
_READERS: Mapping[str, Callable[[Section, Models], Solver | None]] = {
    "single_turn_solver": read_single_turn,
    "grouped_single_turn_solver": read_grouped,
    "multi_turn_solver": read_multi_turn,
    "pass_through_solver": lambda section, _lines: read_pass_through(section),
    "python": read_python,
}


class SolverParts(NamedTuple):
    """The ``solver`` section of a task.

    Args:
        postprocessor: Turns an output into rows, ``None`` to keep the output.
        models: Keys of the models that may be called; the tested model's is empty.
        is_single_round: Whether there is at most one round.
        is_declared: Whether the requests depend on the file only, not on code.
    """

    solver: Solver
    postprocessor: Postprocessor | None
    models: frozenset[str]
    is_single_round: bool = False
    is_declared: bool = False


def read_solver(section: Section, models: Models) -> SolverParts | None:
    """Return the solver of a task; ``None`` if it is invalid, with errors added to the
    problems of the section."""
    kind = section.one_of("type", "solver", sorted(_READERS), "")
    if not kind:
        return None
    # Both message formats are accepted everywhere.
    section.one_of("message_format", "message format", _FORMATS, _FORMATS[1])
    postprocessor = read_postprocessor(section)
    model_keys: set[str] = set()

    def record_model(key: str) -> ModelClient:
        model_keys.add(key)
        return models(key)

    solver = _READERS[kind](section, record_model)
    section.close(f"a solver of type {kind}")
    if solver is None:
        return None
    once = kind.endswith("single_turn_solver") or not model_keys
    return SolverParts(
        solver, postprocessor, frozenset(model_keys), once, is_declared=kind != "python"
    )
