"""Which values the computations of lighteval's metrics give for a document."""

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
"""Classes whose values are between 0 and 1. A subclass may compute others."""


def span_of(computation: Any) -> Span:
    """Range of a computation's values for a document, if known."""
    computation = getattr(computation, "computation", computation)
    kind = type(computation)
    if not kind.__module__.startswith(_OURS) or kind.__name__ not in _SHARES:
        return ANYTHING
    how = getattr(computation, "aggregation_function", None)
    is_users = callable(how) and how not in (max, min)
    in_percent = getattr(computation, "bootstrap", False)
    return ANYTHING if is_users or in_percent else SHARE
