"""Metrics under names of earlier releases that task files still use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pytest_evals.scorers.lighteval.catalogue.builders import CHOICES, Maker, sample
from pytest_evals.scorers.lighteval.catalogue.texts import em
from pytest_evals.scorers.lighteval.likelihoods.choices import LoglikelihoodAcc
from pytest_evals.scorers.lighteval.likelihoods.logprobs import LogProbCharNorm
from pytest_evals.scorers.lighteval.metric import Metric
from pytest_evals.scorers.lighteval.similarity.matches import ExactMatches


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
"""Name in earlier releases → factory."""
