"""Rows of a task: the selected samples and their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.rows import Table, document_ids, row_sizes, selection
from pytest_evals.dialects.latticeflow.samples import ID, Rows

SEED = 1234
"""Seed of ``subsampling: random``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsample:
    """Number of samples to run: the first ``n``, or ``n`` random ones in order."""

    n: int
    how: Literal["head", "random"] = "head"


class Samples(NamedTuple):
    """The samples of a dataset, or of several aligned ones.

    Args:
        samples: One per document.
        columns: For aligned datasets, all rows of each by its parameter, for scorers of
            all samples at once.
        ids: One per document, as text.
    """

    samples: Rows
    columns: Mapping[str, Rows] | None
    ids: Sequence[Any]


class SampleRows:
    """The documents of a task; their dataset is loaded on first access."""

    def __init__(
        self,
        load: Callable[[], Samples],
        options: TaskOptions,
        subsample: Subsample | None = None,
    ) -> None:
        """Create the rows.

        Args:
            load: Loads all samples.
            options: Limit, sample and seed of the session.
            subsample: The task's own selection of samples.
        """
        self._load, self._options, self._subsample = load, options, subsample

    def ids(self) -> Sequence[str]:
        """Return the unique ids of the documents to run.

        Raises:
            TaskFileError: The dataset cannot be read.
        """
        return [self._document_ids.ids[i] for i in self._selected]

    def indices(self) -> Sequence[int]:
        """Return the positions of the documents to run in the whole dataset."""
        return self._selected

    def total(self) -> int:
        """Return the number of documents before the session's limit or sample."""
        return len(self.own)

    def sizes(self) -> Sequence[int]:
        """Return the bytes of text in each document."""
        return row_sizes([self.loaded.samples[i] for i in self._selected])

    def sample(self, index: int) -> dict[str, Any]:
        """Return the sample at a position of the whole dataset."""
        return self.loaded.samples[index]

    def id(self, index: int) -> str:
        """Return the id of the document at a position."""
        name: str = self._document_ids.ids[index]
        return name

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the ids, if they have been read."""
        return self._document_ids.warnings if "_named" in vars(self) else ()

    @cached_property
    def loaded(self) -> Samples:
        """All samples."""
        return self._load()

    @cached_property
    def _document_ids(self) -> Any:
        return document_ids(Table([{ID: one} for one in self.loaded.ids]))

    @cached_property
    def own(self) -> Sequence[int]:
        """Positions that the task's own subsampling selects."""
        total, subsample = len(self.loaded.samples), self._subsample
        if subsample is None:
            return range(total)
        if subsample.how == "head":
            return range(min(total, subsample.n))
        return selection(total, None, subsample.n, SEED)

    @cached_property
    def _selected(self) -> Sequence[int]:
        options = self._options
        selected = selection(len(self.own), options.limit, options.sample, options.seed)
        return [self.own[i] for i in selected]
