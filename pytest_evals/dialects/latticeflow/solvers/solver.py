"""Solver interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput

Sample = Mapping[str, Any]
"""A row of a dataset, in LatticeFlow's terms."""


class Solver(Protocol):
    """Turns a sample into an output by calling models."""

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Run the solver for one sample, which it never modifies."""
        ...
