"""Documents that a model could not answer: errors, of which a run allows a fraction,
and requests that were not sent."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_evals.core.record import Record
from pytest_evals.core.request import UNSENT
from pytest_evals.errors import ModelError, SpendCapError, plural

_BUDGET_FROM = 20  # documents that run before the error budget can stop the run
_BUDGET_BASE = 100
"""The fraction is of at least this many documents, so that a few errors at the start of
a long run do not stop it."""


@dataclass(slots=True)
class ErrorBudget:
    """Stop if a model fails on more than the fraction ``most`` of documents."""

    most: float
    n_asked: int = 0
    lost: set[tuple[str, int]] = field(default_factory=set)
    """Documents with an error, by task and index. Plugins that repeat failures, such as
    pytest-rerunfailures, request them again: the last response counts."""

    def add(self, record: Record) -> None:
        """Count a document with requests to the model.

        Raises:
            ModelError: Too many documents have errors.
            SpendCapError: A request was not sent.
        """
        if not record.requests and not record.exchanges:
            return
        if not record.error and not record.exchanges and not self.lost:
            self.n_asked += 1
            return
        if why := unsent(record):
            raise SpendCapError(why)
        document = (record.task, record.index)
        self.n_asked += document not in self.lost
        if not any(one.error for one in record.all_responses):
            self.lost.discard(document)
            return
        self.lost.add(document)
        allowed = self.most * max(self.n_asked, _BUDGET_BASE)
        if self.n_asked >= _BUDGET_FROM and len(self.lost) > allowed:
            raise ModelError(
                f"the run stops: the model could not answer {len(self.lost)} of "
                f"{plural(self.n_asked, 'document')}, more than --evals-max-errors="
                f"{self.most:.0%} allows; the last one: {record.error}\n"
                "  fix: resolve the errors above and run again; responses are stored. "
                "--evals-max-errors=100% never stops"
            )


def unsent(record: Record) -> str:
    """Why a request of a document was not sent; empty if all were."""
    if not record.error and not record.exchanges:
        return ""
    return next((one.error for one in record.all_responses if one.finish == UNSENT), "")
