"""Rows of a task: the selected samples and their ids; and scorers of all samples at
once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Literal, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.row_selection import SelectedRows
from pytest_evals.data.rows import Ids, Table, document_ids, row_sizes, selection
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.guests.latticeflow.samples import ID, Rows
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer

SEED = 1234
"""Seed of ``subsampling: random``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsample:
    """Number of samples to run: the first ``n``, or ``n`` random ones in order."""

    n: int
    how: Literal["head", "random"] = "head"


class Samples(NamedTuple):
    """The samples of a dataset, or of several aligned ones."""

    samples: Rows
    columns: Mapping[str, Rows] | None  # rows of each aligned dataset, by its parameter
    ids: Sequence[Any]


class SampleRows(SelectedRows):
    """The documents of a task; their dataset is loaded on first access. ``options``:
    limit, sample and seed of the session."""

    def __init__(
        self,
        load: Callable[[], Samples],
        options: TaskOptions,
        subsample: Subsample | None = None,
    ) -> None:
        super().__init__(options)
        self._load, self._subsample = load, subsample

    def sample(self, index: int) -> dict[str, Any]:
        """Return the sample at a position of the whole dataset."""
        return self.loaded.samples[index]

    @cached_property
    def loaded(self) -> Samples:
        """All samples."""
        return self._load()

    @cached_property
    def own(self) -> Sequence[int]:
        """Positions that the task's own subsampling selects."""
        total, subsample = len(self.loaded.samples), self._subsample
        if subsample is None:
            return range(total)
        if subsample.how == "head":
            return range(min(total, subsample.n))
        return selection(total, None, subsample.n, SEED)

    def _load_ids(self) -> Ids:
        return document_ids(Table([{ID: one} for one in self.loaded.ids]))

    def _sizes_of(self, indices: Sequence[int]) -> Sequence[int]:
        return row_sizes([self.loaded.samples[n] for n in indices])


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
    """Dialogue of a ``python_all_samples`` scorer. The scorer is called once per
    process, when the first sample is scored. It always receives all samples of the
    task, including those that another worker runs, so that every process computes the
    same scores. Samples are identified by object identity."""

    def __init__(self, scorer: SampleScorer, rows: SampleRows) -> None:
        self._scorer, self._rows = scorer, rows
        self._scores: dict[int, SampleScore] | None = None
        self._error = ""
        self._lock = Lock()

    def __call__(self, sample: Any, output: Any) -> Dialogue[SampleScore]:
        yield from ()
        with self._lock:
            if self._scores is None:
                self._scores = self._score_all()
        if self._error:
            raise DocumentError(self._error)
        if id(sample) not in self._scores:
            what = "this sample was not among the samples of the scorer's call"
            raise DocumentError(what)
        return self._scores[id(sample)]

    def _score_all(self) -> dict[int, SampleScore]:
        indices, loaded = self._rows.indices(), self._rows.loaded
        samples = [loaded.samples[i] for i in indices]
        argument: Any = samples
        if loaded.columns is not None:
            argument = {
                name: [rows[i] for i in indices if i < len(rows)]
                for name, rows in loaded.columns.items()
            }
        assert self._scorer.score_samples is not None, "checked by with_all_samples"
        try:
            scores = self._scorer.score_samples(argument)
        except DocumentError as error:
            self._error = str(error)
            return {}
        return {id(one): score for one, score in zip(samples, scores, strict=True)}
