"""lighteval's metrics by name (0.13.0, the enumeration ``Metrics``), including names of
earlier releases that task files still use.

Libraries are imported when a metric is computed, not when it is created.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_evals.scorers.lighteval.catalogue.bug_compatibility import PUBLISHED_METRICS
from pytest_evals.scorers.lighteval.catalogue.builders import (
    CHOICES,
    ROLLING,
    TEXT,
    Maker,
    corpus,
    group,
    sample,
)
from pytest_evals.scorers.lighteval.catalogue.legacy_names import LEGACY_METRICS
from pytest_evals.scorers.lighteval.catalogue.texts import TEXT_METRICS
from pytest_evals.scorers.lighteval.corpus.labels import (
    CorpusLevelF1Score,
    MatthewsCorrCoef,
)
from pytest_evals.scorers.lighteval.corpus.perplexities import (
    CorpusLevelPerplexityMetric,
)
from pytest_evals.scorers.lighteval.corpus.preparators import (
    GenerativePreparator,
    LoglikelihoodPreparator,
    PerplexityPreparator,
    TargetPerplexityPreparator,
)
from pytest_evals.scorers.lighteval.corpus.translation import (
    CorpusLevelTranslationMetric,
)
from pytest_evals.scorers.lighteval.likelihoods.choices import (
    MRR,
    AccGoldLikelihood,
    LoglikelihoodAcc,
    Recall,
    TruthfulqaMCMetrics,
)
from pytest_evals.scorers.lighteval.metric import CorpusLevelMetric, SampleLevelMetric

CHOICE_METRICS: Mapping[str, Maker] = {
    "acc_golds_likelihood": lambda: sample("acc", AccGoldLikelihood(), CHOICES),
    "loglikelihood_acc": lambda: sample("acc", LoglikelihoodAcc(), CHOICES),
    "loglikelihood_f1": lambda: corpus(
        "loglikelihood_f1", LoglikelihoodPreparator(), CorpusLevelF1Score(None)
    ),
    "mcc": lambda: corpus("mcc", LoglikelihoodPreparator(), MatthewsCorrCoef()),
    "mrr": lambda: sample("mrr", MRR(), CHOICES),
    "multi_f1_numeric": lambda: corpus(
        "mf1", LoglikelihoodPreparator(True), CorpusLevelF1Score("micro", 3)
    ),
    "recall_at_k": lambda: sample("recall", Recall(), CHOICES),
    "target_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        CHOICES,
        TargetPerplexityPreparator("words"),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
    "truthfulqa_mc_metrics": lambda: group(
        ["truthfulqa_mc1", "truthfulqa_mc2"], TruthfulqaMCMetrics(), category=CHOICES
    ),
}
"""Metrics computed from the log-probabilities of choices."""


def _perplexity(name: str, kind: str, unit: str) -> CorpusLevelMetric:
    return CorpusLevelMetric(
        name,
        False,
        ROLLING,
        PerplexityPreparator(unit),
        CorpusLevelPerplexityMetric(kind),
    )


def _translation(name: str, better: bool = True) -> CorpusLevelMetric:
    how = CorpusLevelTranslationMetric(name)
    return CorpusLevelMetric(name, better, TEXT, GenerativePreparator(), how)


CORPUS_METRICS: Mapping[str, Maker] = {
    "bits_per_byte": lambda: _perplexity("bits_per_byte", "bits_per_byte", "bytes"),
    "bleu": lambda: _translation("bleu"),
    "byte_perplexity": lambda: _perplexity(
        "byte_perplexity", "weighted_perplexity", "bytes"
    ),
    "chrf": lambda: _translation("chrf"),
    "chrf_plus": lambda: _translation("chrf++"),
    "f1_score_macro": lambda: corpus(
        "f1", GenerativePreparator(), CorpusLevelF1Score("macro"), TEXT
    ),
    "f1_score_micro": lambda: corpus(
        "f1", GenerativePreparator(), CorpusLevelF1Score("micro"), TEXT
    ),
    "prediction_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        ROLLING,
        PerplexityPreparator("words"),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
    "ter": lambda: _translation("ter", better=False),
    "word_perplexity": lambda: _perplexity(
        "word_perplexity", "weighted_perplexity", "words"
    ),
}
"""Corpus metrics of texts."""

CATALOGUE: Mapping[str, Maker] = {
    **TEXT_METRICS,
    **CHOICE_METRICS,
    **CORPUS_METRICS,
    **LEGACY_METRICS,
}
"""Name → factory."""

PUBLISHED: Mapping[str, Maker] = {**CATALOGUE, **PUBLISHED_METRICS}
"""The same, with lighteval's bugs."""
