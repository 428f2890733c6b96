"""Metrics that are created with arguments and named after them (lighteval 0.13.0,
``metrics/dynamic_metrics.py``)."""

from __future__ import annotations

from typing import Any

from pytest_evals.guests.lighteval.metrics.catalogue import CHOICES, sample
from pytest_evals.guests.lighteval.metrics.choices import (
    LoglikelihoodAcc,
    LogProbNormalization,
    NormalizedMultiChoiceProbability,
    Probability,
    normalization,
)
from pytest_evals.guests.lighteval.metrics.extractive_match import (
    MultilingualExtractiveMatchMetric,
)
from pytest_evals.guests.lighteval.metrics.matches import ExactMatches, F1_score
from pytest_evals.guests.lighteval.metrics.normalizers import (
    code_of,
    get_multilingual_normalizer,
)
from pytest_evals.guests.lighteval.metrics.reductions import Reduction
from pytest_evals.scorers.custom_metrics.metric import SampleLevelMetric

__all__ = [
    "LogLikelihoodAccMetric",
    "MultilingualQuasiExactMatchMetric",
    "MultilingualQuasiF1ScoreMetric",
    "NormalizedMultiChoiceProbMetric",
    "ProbabilityMetric",
    "loglikelihood_acc_metric",
    "multilingual_extractive_match_metric",
    "multilingual_quasi_exact_match_metric",
    "multilingual_quasi_f1_score_metric",
    "normalized_multi_choice_prob_metric",
    "probability_metric",
]

_Norm = LogProbNormalization | str | None


def _name_with(name: str, given: _Norm) -> str:
    norm = normalization(given)
    return name if norm is None else f"{name}_{norm.name}"


def LogLikelihoodAccMetric(normalization: _Norm = None) -> SampleLevelMetric:
    """Whether the most likely choice is correct: ``acc``, ``acc_norm`` …"""
    computation = LoglikelihoodAcc(normalization)
    return sample(_name_with("acc", normalization), computation, CHOICES)


def NormalizedMultiChoiceProbMetric(
    normalization: _Norm = None, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Normalized probability of the correct choice: ``normalized_mc_prob`` …"""
    computation = NormalizedMultiChoiceProbability(normalization, aggregation_function)
    name = _name_with("normalized_mc_prob", normalization)
    return sample(name, computation, CHOICES)


def ProbabilityMetric(
    normalization: _Norm = None, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Probability of the correct choice: ``prob`` …"""
    computation = Probability(normalization, aggregation_function)
    return sample(_name_with("prob", normalization), computation, CHOICES)


def MultilingualQuasiF1ScoreMetric(
    language: Any, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Token F1 with a language's normalization: ``f1_eng``."""
    normalize = get_multilingual_normalizer(language)
    computation = F1_score(aggregation_function, normalize, normalize)
    return sample(f"f1_{code_of(language)}", computation)


def MultilingualQuasiExactMatchMetric(
    language: Any, match_type: str = "full", aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Exact match with a language's normalization: ``exact_match_eng_full``."""
    normalize = get_multilingual_normalizer(language)
    computation = ExactMatches(
        aggregation_function, normalize, normalize, type_exact_match=match_type
    )
    name = f"exact_match_{code_of(language)}_{match_type}"
    return sample(name, computation)


def multilingual_extractive_match_metric(
    language: Any = "eng",
    gold_extraction_target: Any = ("expr",),
    pred_extraction_target: Any = ("expr",),
    **more: Any,
) -> SampleLevelMetric:
    """Extractive match, in releases before 0.11: ``extractive_match``."""
    computation = MultilingualExtractiveMatchMetric(
        language, gold_extraction_target, pred_extraction_target, **more
    )
    return sample("extractive_match", computation)


# Names of the same functions in releases before 0.11.
loglikelihood_acc_metric = LogLikelihoodAccMetric
normalized_multi_choice_prob_metric = NormalizedMultiChoiceProbMetric
probability_metric = ProbabilityMetric
multilingual_quasi_f1_score_metric = MultilingualQuasiF1ScoreMetric
multilingual_quasi_exact_match_metric = MultilingualQuasiExactMatchMetric
