"""Detection of custom filters whose result depends on other documents.

lm-eval (0.4.13, ``api/filter.py``) passes the responses of all documents to a filter at
once; here a filter gets those of one document at a time, so that documents are scored
as soon as their responses arrive, in any process. Filters of lm-eval and its task tree
give the same results in both cases. For custom filters, the first few documents are
filtered again in pairs, and the results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.errors import DocumentError
from pytest_evals.scorers.filters import Pipeline
from pytest_evals.scorers.metric_value import plain

_Responses = tuple[list[list[Any]], Mapping[str, Any]]
_PAIRS = 4  # number of pairs to compare


CROSS_DOCUMENT_WARNING = (
    "the filters of {name} depend on other documents, as lm-eval allows; here they "
    "get one document at a time, so the results may differ"
)
"""Warning if results differ."""


class FilterScope:
    """Compares filtering documents one by one with filtering them together."""

    def __init__(self, together: Callable[[Any, Any], Sequence[Any]]) -> None:
        """Compare the first few documents. ``together``: filters two documents at
        once and returns the filtered responses of each of their requests. May raise
        ``DocumentError``."""
        self._together = together
        self._last: tuple[Any, Sequence[Any]] | None = None
        self._n_remaining = _PAIRS
        self.differ = False
        """Whether the results of any document differ."""

    @classmethod
    def of(cls, pipeline: Pipeline) -> FilterScope:
        """For a pipeline; a document is a pair of responses by request and row."""

        def together(one: _Responses, other: _Responses) -> Sequence[Any]:
            rows = [row for responses, row in (one, other) for _ in responses]
            filtered: tuple[Any, ...] = plain(
                pipeline.apply_all([*one[0], *other[0]], rows)
            )
            return filtered

        return cls(together)

    def check(self, document: Any, alone: Sequence[Any]) -> None:
        """Compare a document with the previous one."""
        if not self._n_remaining or self.differ:
            return
        last, self._last = self._last, (document, alone)
        if last is None:
            return
        self._n_remaining -= 1
        earlier, previous = last
        try:
            both = self._together(earlier, document)
        except DocumentError:
            self.differ = True
            return
        expected = [*previous, *alone]
        self.differ = len(both) != len(expected) or not all(map(_same, both, expected))
        if self.differ or not self._n_remaining:
            self._last = None


def _same(one: Any, other: Any) -> bool:
    if repr(one) == repr(other):
        return True
    try:
        return bool(one == other)
    except ValueError:  # the truth value of an array is ambiguous
        return False
