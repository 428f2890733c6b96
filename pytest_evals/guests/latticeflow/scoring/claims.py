"""RAGChecker scores: the quality of a retrieval-augmented answer, by claims.

After Ru et al. 2024 (arXiv 2408.08067). Entailment is an input; a score with an empty
denominator is omitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SCORES = (
    "recall",
    "precision",
    "f1_score",
    "claim_recall",
    "context_precision",
    "context_utilization",
    "noise_sensitivity_in_relevant",
    "noise_sensitivity_in_irrelevant",
    "hallucination",
    "self_knowledge",
    "faithfulness",
)
"""Names of all scores; only the last needs no target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entailment:
    """Whether texts entail claims: of each claim of the target or answer, whether the
    other one entails it, and the same for each retrieved passage."""

    target_by_answer: Sequence[bool] = ()
    answer_by_target: Sequence[bool] = ()
    target_by_chunk: Sequence[Sequence[bool]] = ()
    answer_by_chunk: Sequence[Sequence[bool]] = ()


def rag_scores(entailed: Entailment, requested: Sequence[str]) -> dict[str, float]:
    """Return the requested scores that are defined."""
    shares = {
        "recall": entailed.target_by_answer,
        "precision": entailed.answer_by_target,
        **_retrieval_flags(entailed),
        **_noise_flags(entailed),
    }
    scores = {name: sum(flags) / len(flags) for name, flags in shares.items() if flags}
    recall, precision = scores.get("recall"), scores.get("precision")
    if recall is not None and precision is not None:
        both = recall + precision
        scores["f1_score"] = 2 * recall * precision / both if both else 0.0
    return {
        name: scores[name] for name in SCORES if name in requested and name in scores
    }


def _retrieval_flags(entailed: Entailment) -> dict[str, list[bool]]:
    by_answer = entailed.target_by_answer
    by_any = _by_any(entailed.target_by_chunk, len(by_answer))
    return {
        "claim_recall": by_any,
        "context_precision": _relevant(entailed),
        "context_utilization": [a for a, h in zip(by_answer, by_any, strict=True) if h],
    }


def _noise_flags(entailed: Entailment) -> dict[str, list[bool]]:
    correct = entailed.answer_by_target
    n = len(entailed.answer_by_chunk[0]) if entailed.answer_by_chunk else len(correct)
    pairs = zip(entailed.answer_by_chunk, _relevant(entailed), strict=False)
    from_relevant = _by_any([row for row, is_relevant in pairs if is_relevant], n)
    by_any = _by_any(entailed.answer_by_chunk, n)
    if len(correct) != n:
        return {"faithfulness": by_any}
    cases = list(zip(correct, by_any, from_relevant, strict=True))
    return {
        "faithfulness": by_any,
        "noise_sensitivity_in_relevant": [not r and c for r, _, c in cases],
        "noise_sensitivity_in_irrelevant": [not r and h and not c for r, h, c in cases],
        "hallucination": [not r and not h for r, h, _ in cases],
        "self_knowledge": [r and not h for r, h, _ in cases],
    }


def _relevant(entailed: Entailment) -> list[bool]:
    """Return whether each passage entails any claim of the target."""
    return [any(row) for row in entailed.target_by_chunk]


def _by_any(rows: Sequence[Sequence[bool]], n: int) -> list[bool]:
    """Return whether any passage entails each of n claims."""
    return [any(row[claim] for row in rows) for claim in range(n)]
