"""From a task's ``solver`` to what runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

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
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines
from pytest_evals.dialects.yaml_reader.section import Section

_FORMATS = ("latticeflow", "open_responses")
_READERS: Mapping[str, Callable[[Section, Lines], Solver | None]] = {
    "single_turn_solver": read_single_turn,
    "grouped_single_turn_solver": read_grouped,
    "multi_turn_solver": read_multi_turn,
    "pass_through_solver": lambda section, _lines: read_pass_through(section),
    "python": read_python,
}


class SolverParts(NamedTuple):
    """What ``solver`` of a task says.

    Args:
        solver: Makes an output of a sample.
        postprocessor: Makes rows of an output, ``None`` for the output itself.
        models: Keys of the models that may be asked; an empty one is the model that is
            tested.
        asks_once: Whether there is one round at most.
        is_declared: Whether the file alone, and no code in it, says what is asked.
    """

    solver: Solver
    postprocessor: Postprocessor | None
    models: frozenset[str]
    asks_once: bool = False
    is_declared: bool = False


def read_solver(section: Section, lines: Lines) -> SolverParts | None:
    """The solver of a task.

    Args:
        section: ``solver``, with everything put in.
        lines: How models are asked.

    Returns:
        ``None`` if it cannot be used; why, are problems of the section.
    """
    kind = section.one_of("type", "solver", sorted(_READERS), "")
    if not kind:
        return None
    # Either form of messages is understood everywhere.
    section.one_of("message_format", "message format", _FORMATS, _FORMATS[1])
    postprocessor = read_postprocessor(section)
    asked: set[str] = set()

    def noted(key: str) -> SolverChain:
        asked.add(key)
        return lines(key)

    solver = _READERS[kind](section, noted)
    section.close(f"a solver of type {kind}")
    if solver is None:
        return None
    once = kind.endswith("single_turn_solver") or not asked
    return SolverParts(
        solver, postprocessor, frozenset(asked), once, is_declared=kind != "python"
    )
