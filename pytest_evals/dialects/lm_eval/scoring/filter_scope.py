"""Whether filters of a task's own look beyond one document.

lm-eval (0.4.13, ``api/filter.py``) hands a filter the responses of all documents of a
task at once; here it gets those of one document at a time, so that a document is scored
as soon as it is answered, in whichever process. All filters of lm-eval's own, and of
its task tree, give the same in both ways. For others the first few documents are
filtered once more, in pairs, and what comes out is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.errors import DocumentError
from pytest_evals.scorers.filters import Pipeline
from pytest_evals.scorers.metric_value import plain

_Answered = tuple[list[list[Any]], Mapping[str, Any]]
_PAIRS = 4
"""Pairs of documents that are compared."""


LOOKS_BEYOND = (
    "the filters of {name} leave something else when they see several documents, as "
    "in lm-eval; here they see one document at a time, and the numbers may be others"
)
"""What is said then."""


class Neighbours:
    """Compares filtering documents one by one with filtering them together."""

    def __init__(self, together: Callable[[Any, Any], Sequence[Any]]) -> None:
        """Nothing was seen yet.

        Args:
            together: Filters two documents at once, and gives what is left of each of
                their requests. May raise ``DocumentError``.
        """
        self._together = together
        self._last: tuple[Any, Sequence[Any]] | None = None
        self._left = _PAIRS
        self.differ = False
        """Whether any document came out otherwise in company."""

    @classmethod
    def of(cls, pipeline: Pipeline) -> Neighbours:
        """For documents that are the responses to each of their requests, and a row."""

        def together(one: _Answered, other: _Answered) -> Sequence[Any]:
            rows = [row for responses, row in (one, other) for _ in responses]
            left: tuple[Any, ...] = plain(
                pipeline.apply_all([*one[0], *other[0]], rows)
            )
            return left

        return cls(together)

    def look(self, document: Any, alone: Sequence[Any]) -> None:
        """See a document after it was filtered by itself.

        Args:
            document: What ``together`` takes.
            alone: What was left of each of its requests.
        """
        if not self._left or self.differ:
            return
        last, self._last = self._last, (document, alone)
        if last is None:
            return
        self._left -= 1
        before, was = last
        try:
            both = self._together(before, document)
        except DocumentError:
            self.differ = True
            return
        expected = [*was, *alone]
        self.differ = len(both) != len(expected) or not all(map(_same, both, expected))
        if self.differ or not self._left:
            self._last = None


def _same(one: Any, other: Any) -> bool:
    if repr(one) == repr(other):
        return True
    try:
        return bool(one == other)
    except ValueError:  # arrays have no one truth value
        return False
