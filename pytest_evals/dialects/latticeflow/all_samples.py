"""Scorers that see all samples at once, in a flow that goes sample by sample.

They are called once a process, with all samples of the task, when the first of these is
scored; so that they say the same whichever samples run in this process.
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


def seen_together(
    scorers: Sequence[SampleScorer], rows: SampleRows
) -> tuple[SampleScorer, ...]:
    """The scorers, each with a dialogue for one sample."""
    return tuple(
        one if one.over_all is None else replace(one, dialogue=_Together(one, rows))
        for one in scorers
    )


class _Together:
    """The dialogue of a scorer that sees all samples at once."""

    def __init__(self, scorer: SampleScorer, rows: SampleRows) -> None:
        self._scorer, self._rows = scorer, rows
        self._scores: dict[int, SampleScore] | None = None
        self._fault = ""
        self._lock = Lock()

    def __call__(self, sample: Any, output: Any) -> Dialogue[SampleScore]:
        """What is said of a sample, which is one of the task's by identity."""
        yield from ()
        with self._lock:
            if self._scores is None:
                self._scores = self._all()
        if self._fault:
            raise DocumentError(self._fault)
        if id(sample) not in self._scores:
            raise DocumentError("this is none of the samples that were seen together")
        return self._scores[id(sample)]

    def _all(self) -> dict[int, SampleScore]:
        taken = self._rows.indices()
        loaded = self._rows.loaded
        samples = [loaded.samples[i] for i in taken]
        given: Any = samples
        if loaded.columns is not None:
            given = {
                name: [rows[i] for i in taken if i < len(rows)]
                for name, rows in loaded.columns.items()
            }
        try:
            scores = self._scorer.of_all(given)
        except DocumentError as error:
            self._fault = str(error)
            return {}
        return {id(one): score for one, score in zip(samples, scores, strict=True)}
