"""Perplexities and bits per byte over all documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.metrics.corpus.corpus_metric import (
    CorpusMetric,
    check_choice,
)
from pytest_evals.scorers.aggregations import AGGREGATIONS, Aggregation
from pytest_evals.stats.bootstrap import resampled_perplexity, resampled_scores

__all__ = ["CorpusLevelPerplexityMetric"]

_PERPLEXITIES = ("perplexity", "weighted_perplexity", "bits_per_byte")


@dataclass(frozen=True)
class CorpusLevelPerplexityMetric(CorpusMetric):
    """Perplexity per document, per unit of text, or bits per byte.

    Args:
        metric_type: ``perplexity`` (ignores the lengths of documents),
            ``weighted_perplexity`` or ``bits_per_byte``.
    """

    metric_type: str

    def __post_init__(self) -> None:
        """Validate the type."""
        check_choice("perplexity", self.metric_type, _PERPLEXITIES)

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """Compute the perplexity; NaN for no documents with ``perplexity``."""
        of_mean = self.metric_type == "perplexity"
        return math.nan if of_mean and not items else super().compute_corpus(items)

    def aggregation(self) -> Aggregation:
        """Return the aggregation over log-probabilities and lengths."""
        known = AGGREGATIONS[self.metric_type]
        if self.metric_type == "perplexity":
            return Aggregation(
                name="perplexity",
                takes="pairs",
                read=lambda pairs: [pair[0] for pair in pairs],
                value=known.value,
                statistic=resampled_perplexity,
                totals=known.totals,
                span=known.span,
            )
        return Aggregation(
            name=known.name,
            takes="pairs",
            read=known.read,
            value=partial(_per_unit, known.value),
            statistic=lambda pairs: resampled_scores(
                pairs, lambda sums: known.value(([sums[0]], [sums[1]]))
            ),
            totals=known.totals,
            span=known.span,
        )


def _per_unit(value: Callable[[Any], float], pairs: tuple[Any, Any]) -> float:
    if not sum(pairs[1]):
        raise EvalsError("all texts are empty; per-unit perplexity is undefined")
    return value(pairs)
