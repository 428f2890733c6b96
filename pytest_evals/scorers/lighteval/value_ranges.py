"""Ranges of the per-document values of lighteval's metrics."""

from __future__ import annotations

from typing import Any

from pytest_evals.core.metric import ANYTHING, SHARE, Span

_OURS = "pytest_evals."
_SHARES = frozenset(
    {
        "AccGoldLikelihood",
        "BLEU",
        "CodegenMetric",
        "DropMetrics",
        "ExactMatches",
        "F1_score",
        "GPassAtK",
        "IFBenchMetrics",
        "IFEvalMetrics",
        "LoglikelihoodAcc",
        "MRR",
        "MultilingualExtractiveMatchMetric",
        "PassAtK",
        "ROUGE",
        "Recall",
        "TruthfulqaMCMetrics",
    }
)
"""Classes with values between 0 and 1; subclasses may have other ranges."""


def span_of(computation: Any) -> Span:
    """Return the range of a computation's values, if known."""
    computation = getattr(computation, "computation", computation)
    kind = type(computation)
    if not kind.__module__.startswith(_OURS) or kind.__name__ not in _SHARES:
        return ANYTHING
    how = getattr(computation, "aggregation_function", None)
    is_users = callable(how) and how not in (max, min)
    in_percent = getattr(computation, "bootstrap", False)
    return ANYTHING if is_users or in_percent else SHARE
