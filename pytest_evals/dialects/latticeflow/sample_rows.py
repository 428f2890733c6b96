"""Rows of a task: the selected samples and their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.row_selection import SelectedRows
from pytest_evals.data.rows import Ids, Table, document_ids, row_sizes, selection
from pytest_evals.dialects.latticeflow.samples import ID, Rows

SEED = 1234
"""Seed of ``subsampling: random``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsample:
    """Number of samples to run: the first ``n``, or ``n`` random ones in order."""

    n: int
    how: Literal["head", "random"] = "head"


class Samples(NamedTuple):
    """The samples of a dataset, or of several aligned ones. ``columns``: for aligned
    datasets, all rows of each by its parameter, for scorers of all samples at once."""

    samples: Rows
    columns: Mapping[str, Rows] | None
    ids: Sequence[Any]


class SampleRows(SelectedRows):
    """The documents of a task; their dataset is loaded on first access."""

    def __init__(
        self,
        load: Callable[[], Samples],
        options: TaskOptions,
        subsample: Subsample | None = None,
    ) -> None:
        """Create the rows. ``options``: limit, sample and seed of the session."""
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
