"""Scores of repeated runs of the same documents, in this process and in workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.record import Record

Scores = dict[tuple[str, str], dict[int, object]]
"""Task and key of a metric → position of a document → its value."""


@dataclass(slots=True)
class RerunScores:
    """Scores and counts of repeated runs.

    Args:
        n_first: Documents that this process has run, once.
        n_documents: Documents that were repeated, here and in workers.
        runs: Scores of each further run.
        n_sampled: Sampled responses that can be compared with the previous run.
        n_same: Those that equal the response of the previous run.
    """

    n_first: int = 0
    n_documents: int = 0
    runs: list[Scores] = field(default_factory=list)
    n_sampled: int = 0
    n_same: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the same as JSON values, with numeric scores only."""
        return {
            "n_documents": self.n_documents,
            "n_sampled": self.n_sampled,
            "n_same": self.n_same,
            "runs": [
                [
                    [
                        *key,
                        {
                            at: v
                            for at, v in values.items()
                            if isinstance(v, int | float)
                        },
                    ]
                    for key, values in run.items()
                ]
                for run in self.runs
            ],
        }

    def add(self, report: dict[str, Any]) -> None:
        """Add the :meth:`as_json` of a worker."""
        self.n_documents += report["n_documents"]
        self.n_sampled += report["n_sampled"]
        self.n_same += report["n_same"]
        self.runs += [{} for _ in report["runs"][len(self.runs) :]]
        for scores, run in zip(self.runs, report["runs"], strict=True):
            for task, key, values in run:
                mine = scores.setdefault((task, key), {})
                mine |= {int(at): value for at, value in values.items()}


def scores_of(records: Sequence[Record]) -> Scores:
    """Return the scores of documents without errors that are not excluded."""
    found: Scores = {}
    for record in records:
        for score in record.scores:
            if not (record.error or record.excluded or score.unscored):
                key = record.task, score.key
                found.setdefault(key, {})[record.index] = score.value
    return found
