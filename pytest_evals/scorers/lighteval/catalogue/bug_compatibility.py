"""Metrics with lighteval's bugs, for ``published: true``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pytest_evals.scorers.lighteval.catalogue.builders import (
    CHOICES,
    Maker,
    corpus,
    group,
    sample,
)
from pytest_evals.scorers.lighteval.catalogue.legacy_names import quasi_exact_match
from pytest_evals.scorers.lighteval.catalogue.texts import DISTANCES, TEXT_METRICS
from pytest_evals.scorers.lighteval.corpus.labels import CorpusLevelF1Score
from pytest_evals.scorers.lighteval.corpus.perplexities import (
    CorpusLevelPerplexityMetric,
)
from pytest_evals.scorers.lighteval.corpus.preparators import (
    LoglikelihoodPreparator,
    TargetPerplexityPreparator,
)
from pytest_evals.scorers.lighteval.likelihoods.choices import Recall
from pytest_evals.scorers.lighteval.metric import Metric, SampleLevelMetric
from pytest_evals.scorers.lighteval.similarity.distance import StringDistance
from pytest_evals.scorers.lighteval.similarity.drop import DropMetrics

_REPEATED = tuple(name for name in TEXT_METRICS if "_at_" in name)
"""Metrics of several answers per prompt."""


def _published(name: str) -> Metric:
    made = TEXT_METRICS[name]()
    return replace(made, sample_level_fn=replace(made.sample_level_fn, published=True))


PUBLISHED_METRICS: Mapping[str, Maker] = {
    **{name: partial(_published, name) for name in _REPEATED},
    "copyright": lambda: group(
        DISTANCES,
        StringDistance(DISTANCES),
        down=("edit_distance",),
        how={name: min if name == "edit_distance" else max for name in DISTANCES},
    ),
    "drop": lambda: group(
        ["em", "f1"], DropMetrics(published=True), how={"em": max, "f1": max}
    ),
    "loglikelihood_f1": lambda: corpus(
        "loglikelihood_f1",
        LoglikelihoodPreparator(),
        CorpusLevelF1Score(None, published=True),
    ),
    "multi_f1_numeric": lambda: corpus(
        "mf1",
        LoglikelihoodPreparator(True),
        CorpusLevelF1Score("micro", 3, published=True),
    ),
    "prefix_quasi_exact_match": partial(
        quasi_exact_match, "pqem", "helm_normalizer_published", "prefix"
    ),
    "quasi_exact_match": partial(quasi_exact_match, "qem", "helm_normalizer_published"),
    "quasi_exact_match_gsm8k": partial(
        quasi_exact_match, "qem", "gsm8k_normalizer", published=True
    ),
    "recall_at_k": lambda: sample("recall", Recall(published=True), CHOICES),
    "target_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        CHOICES,
        TargetPerplexityPreparator("words", published=True),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
}
"""Metrics with lighteval's bugs, for ``published: true``."""
