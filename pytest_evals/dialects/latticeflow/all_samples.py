"""Runs ``python_all_samples`` scorers, which score all samples in one call.

The scorer is called once per process, when the first sample is scored. It always
receives all samples of the task, including those that another worker runs, so that
every process computes the same scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.sample_rows import SampleRows
from pytest_evals.dialects.latticeflow.scoring.scorer import SampleScorer
from pytest_evals.errors import DocumentError


def with_all_samples(
    scorers: Sequence[SampleScorer], rows: SampleRows
) -> tuple[SampleScorer, ...]:
    """Return the scorers; those of all samples get a dialogue for each sample."""
    return tuple(
        one
        if one.score_samples is None
        else replace(one, dialogue=_AllSamplesDialogue(one, rows))
        for one in scorers
    )


class _AllSamplesDialogue:
    """Dialogue of a scorer that scores all samples in one call."""

    def __init__(self, scorer: SampleScorer, rows: SampleRows) -> None:
        self._scorer, self._rows = scorer, rows
        self._scores: dict[int, SampleScore] | None = None
        self._error = ""
        self._lock = Lock()

    def __call__(self, sample: Any, output: Any) -> Dialogue[SampleScore]:
        """Return the score of a sample, which is identified by object identity."""
        yield from ()
        with self._lock:
            if self._scores is None:
                self._scores = self._score_all()
        if self._error:
            raise DocumentError(self._error)
        if id(sample) not in self._scores:
            raise DocumentError(
                "this sample was not among the samples of the scorer's call"
            )
        return self._scores[id(sample)]

    def _score_all(self) -> dict[int, SampleScore]:
        indices = self._rows.indices()
        loaded = self._rows.loaded
        samples = [loaded.samples[i] for i in indices]
        argument: Any = samples
        if loaded.columns is not None:
            argument = {
                name: [rows[i] for i in indices if i < len(rows)]
                for name, rows in loaded.columns.items()
            }
        try:
            scores = self._scorer.score_all(argument)
        except DocumentError as error:
            self._error = str(error)
            return {}
        return {id(one): score for one, score in zip(samples, scores, strict=True)}
