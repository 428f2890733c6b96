"""Corpus metrics of texts."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_evals.scorers.lighteval.catalogue.builders import (
    ROLLING,
    TEXT,
    Maker,
    corpus,
)
from pytest_evals.scorers.lighteval.corpus.labels import CorpusLevelF1Score
from pytest_evals.scorers.lighteval.corpus.perplexities import (
    CorpusLevelPerplexityMetric,
)
from pytest_evals.scorers.lighteval.corpus.preparators import (
    GenerativePreparator,
    PerplexityPreparator,
)
from pytest_evals.scorers.lighteval.corpus.translation import (
    CorpusLevelTranslationMetric,
)
from pytest_evals.scorers.lighteval.metric import CorpusLevelMetric, SampleLevelMetric


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
