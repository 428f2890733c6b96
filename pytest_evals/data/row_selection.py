"""The documents to run, selected by the options of a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.rows import Ids, selection


class SelectedRows(ABC):
    """The documents to run (:class:`~pytest_evals.core.task.SizedRows`), loaded when
    they are first needed. Subclasses load them."""

    def __init__(self, options: TaskOptions) -> None:
        self._options = options

    @property
    @abstractmethod
    def own(self) -> Sequence[int]:
        """Positions of the task's documents in the whole dataset."""

    @abstractmethod
    def _load_ids(self) -> Ids:
        """An id for each position of the whole dataset."""

    @abstractmethod
    def _sizes_of(self, indices: Sequence[int]) -> Sequence[int]:
        """Bytes of text at these positions."""

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run."""
        return [self._document_ids.ids[n] for n in self._selected]

    def indices(self) -> Sequence[int]:
        """Their positions in the whole dataset."""
        return self._selected

    def total(self) -> int:
        """Number of documents before the session's limit or sample."""
        return len(self.own)

    def sizes(self) -> Sequence[int]:
        """Bytes of text of the documents to run."""
        return self._sizes_of(self._selected)

    def id(self, index: int) -> str:
        """The id of the document at a position."""
        return self._document_ids.ids[index]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about ids, once they were read."""
        return self._document_ids.warnings if "_document_ids" in vars(self) else ()

    @cached_property
    def _document_ids(self) -> Ids:
        return self._load_ids()

    @cached_property
    def _selected(self) -> Sequence[int]:
        options, own = self._options, self.own
        selected = selection(len(own), options.limit, options.sample, options.seed)
        return [own[n] for n in selected]
