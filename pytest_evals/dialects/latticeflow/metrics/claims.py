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
    """Entailment of claims by texts.

    Args:
        target_by_answer: For each claim of the target, whether the answer entails it.
        answer_by_target: For each claim of the answer, whether the target entails it.
        target_by_chunk: For each retrieved passage, each claim of the target.
        answer_by_chunk: For each retrieved passage, each claim of the answer.
    """

    target_by_answer: Sequence[bool] = ()
    answer_by_target: Sequence[bool] = ()
    target_by_chunk: Sequence[Sequence[bool]] = ()
    answer_by_chunk: Sequence[Sequence[bool]] = ()


def rag_scores(entailed: Entailment, requested: Sequence[str]) -> dict[str, float]:
    """Return the requested scores that are defined."""
    answer = _answer_shares(entailed)
    retrieved = _retrieval_shares(entailed)
    noise = _noise_shares(entailed)
    shares = {**answer, **retrieved, **noise}
    scores = {name: hits / total for name, (hits, total) in shares.items() if total}
    recall, precision = scores.get("recall"), scores.get("precision")
    if recall is not None and precision is not None:
        both = recall + precision
        scores["f1_score"] = 2 * recall * precision / both if both else 0.0
    return {
        name: scores[name] for name in SCORES if name in requested and name in scores
    }


Share = tuple[int, int]
"""Numerator and denominator."""


def _answer_shares(entailed: Entailment) -> dict[str, Share]:
    return {
        "recall": _share(entailed.target_by_answer),
        "precision": _share(entailed.answer_by_target),
    }


def _retrieval_shares(entailed: Entailment) -> dict[str, Share]:
    by_answer = entailed.target_by_answer
    entailed_by_any = _by_any(entailed.target_by_chunk, len(by_answer))
    used = [a for a, h in zip(by_answer, entailed_by_any, strict=True) if h]
    return {
        "claim_recall": _share(entailed_by_any),
        "context_precision": _share(_relevant(entailed)),
        "context_utilization": _share(used),
    }


def _noise_shares(entailed: Entailment) -> dict[str, Share]:
    correct = entailed.answer_by_target
    n = len(entailed.answer_by_chunk[0]) if entailed.answer_by_chunk else len(correct)
    relevant = _relevant(entailed)
    pairs = list(zip(entailed.answer_by_chunk, relevant, strict=False))
    from_relevant = _by_any([row for row, is_relevant in pairs if is_relevant], n)
    entailed_by_any = _by_any(entailed.answer_by_chunk, n)
    scores = {"faithfulness": _share(entailed_by_any)}
    if len(correct) != n:
        return scores
    cases = list(zip(correct, entailed_by_any, from_relevant, strict=True))
    return {
        **scores,
        "noise_sensitivity_in_relevant": _share([not r and c for r, _, c in cases]),
        "noise_sensitivity_in_irrelevant": _share(
            [not r and h and not c for r, h, c in cases]
        ),
        "hallucination": _share([not r and not h for r, h, _ in cases]),
        "self_knowledge": _share([r and not h for r, h, _ in cases]),
    }


def _relevant(entailed: Entailment) -> list[bool]:
    """Return whether each passage entails any claim of the target."""
    return [any(row) for row in entailed.target_by_chunk]


def _by_any(rows: Sequence[Sequence[bool]], n: int) -> list[bool]:
    """Return whether any passage entails each of n claims."""
    return [any(row[claim] for row in rows) for claim in range(n)]


def _share(flags: Sequence[bool]) -> Share:
    return sum(flags), len(flags)
