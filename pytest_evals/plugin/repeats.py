"""Scores of further runs of the same documents, here and in workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.record import Record

Scores = dict[tuple[str, str], dict[int, object]]
"""Task and key of a metric → position of a document → its value."""


@dataclass(slots=True)
class FurtherRuns:
    """What further runs of documents have shown.

    Args:
        n_first: Documents that this process has run, once.
        n_documents: Documents that were repeated, here and in workers.
        runs: What they were worth in each further run.
        n_sampled: Texts that were sampled and have one of the run before beside them.
        n_same: Such texts that are that of the run before.
    """

    n_first: int = 0
    n_documents: int = 0
    runs: list[Scores] = field(default_factory=list)
    n_sampled: int = 0
    n_same: int = 0

    def told(self) -> dict[str, Any]:
        """The same as JSON values. Of values only numbers matter, and are there."""
        return {
            "n_documents": self.n_documents,
            "n_sampled": self.n_sampled,
            "n_same": self.n_same,
            "runs": [
                [
                    [*key, {at: v for at, v in values.items() if _is_number(v)}]
                    for key, values in run.items()
                ]
                for run in self.runs
            ],
        }

    def add(self, told: dict[str, Any]) -> None:
        """Hear what a worker has told."""
        self.n_documents += told["n_documents"]
        self.n_sampled += told["n_sampled"]
        self.n_same += told["n_same"]
        self.runs += [{} for _ in told["runs"][len(self.runs) :]]
        for own, run in zip(self.runs, told["runs"], strict=True):
            for task, key, values in run:
                mine = own.setdefault((task, key), {})
                mine |= {int(at): value for at, value in values.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def scores_of(records: Sequence[Record]) -> Scores:
    """What documents are worth, but for those that errored or do not count."""
    found: Scores = {}
    for record in records:
        for score in record.scores:
            if not (record.error or record.excluded or score.unscored):
                key = record.task, score.key
                found.setdefault(key, {})[record.index] = score.value
    return found
