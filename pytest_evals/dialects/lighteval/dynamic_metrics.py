"""Metrics that are made with their arguments and named after them (lighteval 0.13.0,
``metrics/dynamic_metrics.py``)."""

from __future__ import annotations

from typing import Any

from pytest_evals.scorers.lighteval.likelihoods.choices import (
    LoglikelihoodAcc,
    NormalizedMultiChoiceProbability,
    Probability,
)
from pytest_evals.scorers.lighteval.likelihoods.logprobs import (
    LogProbNormalization,
    normalization,
)
from pytest_evals.scorers.lighteval.metric import SampleLevelMetric, SamplingMethod
from pytest_evals.scorers.lighteval.reductions import Reduction, mean
from pytest_evals.scorers.lighteval.similarity.matches import (
    ExactMatches,
    F1_score,
)
from pytest_evals.scorers.lighteval.text.languages import (
    code_of,
    get_multilingual_normalizer,
)

__all__ = [
    "LogLikelihoodAccMetric",
    "MultilingualQuasiExactMatchMetric",
    "MultilingualQuasiF1ScoreMetric",
    "NormalizedMultiChoiceProbMetric",
    "ProbabilityMetric",
]

_Norm = LogProbNormalization | str | None


def _made(name: str, computation: Any, category: SamplingMethod) -> SampleLevelMetric:
    return SampleLevelMetric(name, True, category, computation, mean)


def _named(name: str, given: _Norm) -> str:
    norm = normalization(given)
    return name if norm is None else f"{name}_{norm.name}"


def LogLikelihoodAccMetric(normalization: _Norm = None) -> SampleLevelMetric:
    """Whether the most likely choice is right: ``acc``, ``acc_norm`` …"""
    computation = LoglikelihoodAcc(normalization)
    return _made(_named("acc", normalization), computation, SamplingMethod.LOGPROBS)


def NormalizedMultiChoiceProbMetric(
    normalization: _Norm = None, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """The right choice's share of the probability: ``normalized_mc_prob`` …"""
    computation = NormalizedMultiChoiceProbability(normalization, aggregation_function)
    name = _named("normalized_mc_prob", normalization)
    return _made(name, computation, SamplingMethod.LOGPROBS)


def ProbabilityMetric(
    normalization: _Norm = None, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """The probability of the right choice: ``prob`` …"""
    computation = Probability(normalization, aggregation_function)
    return _made(_named("prob", normalization), computation, SamplingMethod.LOGPROBS)


def MultilingualQuasiF1ScoreMetric(
    language: Any, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """F1 of the words of a language: ``f1_eng``."""
    normalize = get_multilingual_normalizer(language)
    computation = F1_score(aggregation_function, normalize, normalize)
    return _made(f"f1_{code_of(language)}", computation, SamplingMethod.GENERATIVE)


def MultilingualQuasiExactMatchMetric(
    language: Any, match_type: str = "full", aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Exact match of the words of a language: ``exact_match_eng_full``."""
    normalize = get_multilingual_normalizer(language)
    computation = ExactMatches(
        aggregation_function, normalize, normalize, type_exact_match=match_type
    )
    name = f"exact_match_{code_of(language)}_{match_type}"
    return _made(name, computation, SamplingMethod.GENERATIVE)
