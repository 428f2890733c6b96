"""The samples of a task: which of them are run, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.rows import Table, document_ids, row_sizes, selection
from pytest_evals.dialects.latticeflow.samples import ID, Rows

SEED = 1234
"""Of ``subsampling: random``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsample:
    """How many samples are taken: the first, or some that are drawn, in their order."""

    n: int
    how: Literal["head", "random"] = "head"


class Samples(NamedTuple):
    """What a dataset, or several aligned ones, give a task.

    Args:
        samples: One a document.
        columns: Of aligned datasets, all rows of each by its parameter, for scorers
            that see all samples at once.
        ids: One a document, as text.
    """

    samples: Rows
    columns: Mapping[str, Rows] | None
    ids: Sequence[Any]


class SampleRows:
    """The documents of a task; their dataset is loaded when they are first looked
    at."""

    def __init__(
        self,
        load: Callable[[], Samples],
        options: TaskOptions,
        subsample: Subsample | None = None,
    ) -> None:
        """Load nothing.

        Args:
            load: Gives all samples.
            options: Limit, sample and seed of the session.
            subsample: What the task itself takes of its samples.
        """
        self._load, self._options, self._subsample = load, options, subsample

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run.

        Raises:
            TaskFileError: The dataset cannot be read.
        """
        return [self._named.ids[i] for i in self._taken]

    def indices(self) -> Sequence[int]:
        """Their positions in the whole dataset."""
        return self._taken

    def total(self) -> int:
        """Documents before limit or sample of the session."""
        return len(self.own)

    def sizes(self) -> Sequence[int]:
        """Bytes of text in each."""
        return row_sizes([self.loaded.samples[i] for i in self._taken])

    def sample(self, index: int) -> dict[str, Any]:
        """The sample at a position of the whole dataset."""
        return self.loaded.samples[index]

    def id(self, index: int) -> str:
        """The id of the document at a position."""
        name: str = self._named.ids[index]
        return name

    def warnings(self) -> tuple[str, ...]:
        """What is odd about the ids, once they were looked at."""
        return self._named.warnings if "_named" in vars(self) else ()

    @cached_property
    def loaded(self) -> Samples:
        """All samples."""
        return self._load()

    @cached_property
    def _named(self) -> Any:
        return document_ids(Table([{ID: one} for one in self.loaded.ids]))

    @cached_property
    def own(self) -> Sequence[int]:
        """Positions of what the task itself takes of its samples."""
        total, taken = len(self.loaded.samples), self._subsample
        if taken is None:
            return range(total)
        if taken.how == "head":
            return range(min(total, taken.n))
        return selection(total, None, taken.n, SEED)

    @cached_property
    def _taken(self) -> Sequence[int]:
        options = self._options
        found = selection(len(self.own), options.limit, options.sample, options.seed)
        return [self.own[i] for i in found]
