"""What metrics of a whole corpus share: each is an object with ``compute_corpus``, as
lighteval's (0.13.0, ``metrics/metrics_corpus.py``), and defines its aggregation,
so that it has a standard error: a bootstrap over documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_evals.errors import EvalsError, did_you_mean
from pytest_evals.scorers.aggregations import Aggregation
from pytest_evals.scorers.lighteval.metric import CorpusLevelComputation


class CorpusMetric(CorpusLevelComputation):
    """What all of them share."""

    def aggregation(self) -> Aggregation:
        """How it is added up, with its standard error."""
        raise NotImplementedError

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """The number of all documents.

        Raises:
            EvalsError: The values are not what it takes.
        """
        if not items:
            raise EvalsError("there are no documents")
        how = self.aggregation()
        return float(how.value(how.read(items)))


def check_choice(noun: str, name: Any, known: Sequence[Any]) -> None:
    """Make sure that there is something of a name.

    Raises:
        EvalsError: There is not.
    """
    if name not in known:
        listed = ", ".join(map(str, known))
        hint = did_you_mean(str(name), [str(k) for k in known]) or f"; known: {listed}"
        raise EvalsError(f"no {noun} called {name!r}{hint}")
