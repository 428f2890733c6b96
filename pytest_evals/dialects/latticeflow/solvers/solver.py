"""What a solver is, whatever its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput

Sample = Mapping[str, Any]
"""A row of a dataset, as LatticeFlow calls it."""


class Solver(Protocol):
    """Whatever turns a sample into an output by asking models."""

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """The work on one sample.

        Args:
            sample: What it is about; never changed.
            trial: 0, 1, 2, … where a task has several goes at each sample.

        Raises:
            DocumentError: The sample cannot be worked on.
        """
        ...
