"""The error budget of a model: stop if it fails on too many documents."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.core.record import Record
from pytest_evals.errors import ModelError

FEWEST = 20
"""Documents that are asked in any case."""
BASE = 100
"""The share is of so many documents at least: a few odd ones at the start of a long run
are not the model's fault."""


@dataclass(slots=True)
class ErrorBudget:
    """Documents of one model; ``most`` is the fraction that may fail."""

    most: float
    n_asked: int = 0
    n_lost: int = 0

    def add(self, record: Record) -> None:
        """Count a document that the model was asked about.

        Raises:
            ModelError: Too many came back with an error.
        """
        if not record.requests and not record.exchanges:
            return
        self.n_asked += 1
        if not record.error and not record.exchanges:
            return
        later = [one.response for one in record.exchanges]
        if not any(one.error for one in (*record.responses, *later)):
            return
        self.n_lost += 1
        if self.n_asked >= FEWEST and self.n_lost > self.most * max(self.n_asked, BASE):
            raise ModelError(
                f"the run stops: the model could not answer {self.n_lost} of "
                f"{self.n_asked} documents, more than --evals-max-errors="
                f"{self.most:.0%} allows; the last one: {record.error}\n"
                "  fix: see to the errors above; what was answered is kept. "
                "--evals-max-errors=100% never stops"
            )
