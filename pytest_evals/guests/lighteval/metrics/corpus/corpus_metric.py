"""Base class of corpus metrics: objects with ``compute_corpus``, as in lighteval 0.13.0
(``metrics/metrics_corpus.py``), and an aggregation with a bootstrapped standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_evals.errors import EvalsError, unknown_name
from pytest_evals.scorers.aggregations import Aggregation
from pytest_evals.scorers.custom_metrics.metric import CorpusLevelComputation


class CorpusMetric(CorpusLevelComputation):
    """Base class of corpus metrics."""

    def aggregation(self) -> Aggregation:
        """Return the aggregation, with its standard error."""
        raise NotImplementedError

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """Compute the metric over all documents.

        Raises:
            EvalsError: There are no values, or they have a wrong type.
        """
        if not items:
            raise EvalsError("a corpus metric needs at least one document")
        how = self.aggregation()
        return float(how.value(how.read(items)))


def check_choice(noun: str, name: Any, known: Sequence[Any]) -> None:
    """Check that a name is known."""
    if name not in known:
        raise EvalsError(unknown_name(noun, name, known))
