"""Metrics computed from the log-probabilities of choices."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_evals.scorers.lighteval.catalogue.builders import (
    CHOICES,
    Maker,
    corpus,
    group,
    sample,
)
from pytest_evals.scorers.lighteval.corpus.labels import (
    CorpusLevelF1Score,
    MatthewsCorrCoef,
)
from pytest_evals.scorers.lighteval.corpus.perplexities import (
    CorpusLevelPerplexityMetric,
)
from pytest_evals.scorers.lighteval.corpus.preparators import (
    LoglikelihoodPreparator,
    TargetPerplexityPreparator,
)
from pytest_evals.scorers.lighteval.likelihoods.choices import (
    MRR,
    AccGoldLikelihood,
    LoglikelihoodAcc,
    Recall,
    TruthfulqaMCMetrics,
)
from pytest_evals.scorers.lighteval.metric import SampleLevelMetric

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
