"""lighteval's metrics by name (0.13.0, the enumeration ``Metrics``), including names of
earlier releases that task files still use.

Libraries are imported when a metric is computed, not when it is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pytest_evals.guests.lighteval.metrics.catalogue.builders import (
    CHOICES,
    ROLLING,
    TEXT,
    Maker,
    corpus,
    group,
    sample,
)
from pytest_evals.guests.lighteval.metrics.catalogue.texts import (
    DISTANCES,
    TEXT_METRICS,
    em,
)
from pytest_evals.guests.lighteval.metrics.corpus.labels import (
    CorpusLevelF1Score,
    MatthewsCorrCoef,
)
from pytest_evals.guests.lighteval.metrics.corpus.perplexities import (
    CorpusLevelPerplexityMetric,
)
from pytest_evals.guests.lighteval.metrics.corpus.preparators import (
    GenerativePreparator,
    LoglikelihoodPreparator,
    PerplexityPreparator,
    TargetPerplexityPreparator,
)
from pytest_evals.guests.lighteval.metrics.corpus.translation import (
    CorpusLevelTranslationMetric,
)
from pytest_evals.guests.lighteval.metrics.likelihoods.choices import (
    MRR,
    AccGoldLikelihood,
    LoglikelihoodAcc,
    Recall,
    TruthfulqaMCMetrics,
)
from pytest_evals.guests.lighteval.metrics.likelihoods.logprobs import LogProbCharNorm
from pytest_evals.guests.lighteval.metrics.similarity.distance import StringDistance
from pytest_evals.guests.lighteval.metrics.similarity.drop import DropMetrics
from pytest_evals.guests.lighteval.metrics.similarity.matches import ExactMatches
from pytest_evals.scorers.custom_metrics.metric import (
    CorpusLevelMetric,
    Metric,
    SampleLevelMetric,
)

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
_REPEATED = tuple(name for name in TEXT_METRICS if "_at_" in name)
"""Metrics of several answers per prompt."""


def quasi_exact_match(
    name: str, normalizer: str, kind: str = "full", published: bool = False
) -> Metric:
    """Build an exact match of normalized texts."""
    how = ExactMatches(
        normalize_gold=normalizer,
        normalize_pred=normalizer,
        strip_strings=True,
        type_exact_match=kind,
        published=published,
    )
    return sample(name, how)


LEGACY_METRICS: Mapping[str, Maker] = {
    "loglikelihood_acc_norm": lambda: sample(
        "acc_norm", LoglikelihoodAcc(LogProbCharNorm()), CHOICES
    ),
    "loglikelihood_acc_norm_nospace": lambda: sample(
        "acc_norm", LoglikelihoodAcc(LogProbCharNorm(ignore_first_space=True)), CHOICES
    ),
    "perfect_exact_match": partial(em, "perfect_em"),
    "prefix_exact_match": partial(
        em, "pem", strip_strings=True, type_exact_match="prefix"
    ),
    "prefix_quasi_exact_match": partial(
        quasi_exact_match, "pqem", "helm_normalizer", "prefix"
    ),
    "quasi_exact_match": partial(quasi_exact_match, "qem", "helm_normalizer"),
    "quasi_exact_match_gsm8k": partial(quasi_exact_match, "qem", "gsm8k_normalizer"),
    "quasi_exact_match_math": partial(quasi_exact_match, "qem", "math_normalizer"),
    "quasi_exact_match_triviaqa": partial(
        quasi_exact_match, "qem", "harness_triviaqa_normalizer"
    ),
}


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

CATALOGUE: Mapping[str, Maker] = {
    **TEXT_METRICS,
    **CHOICE_METRICS,
    **CORPUS_METRICS,
    **LEGACY_METRICS,
}

PUBLISHED: Mapping[str, Maker] = {**CATALOGUE, **PUBLISHED_METRICS}
"""The same, with lighteval's bugs."""
