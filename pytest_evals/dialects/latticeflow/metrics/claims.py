"""How good a retrieved answer is, by claims: RAGChecker's scores.

After Ru et al. 2024 (arXiv 2408.08067). What entails what is given; where a denominator
is empty there is no score.
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
"""All of them; only the last needs no target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entailed:
    """Which claims follow from which text.

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


def rag_scores(entailed: Entailed, wanted: Sequence[str]) -> dict[str, float]:
    """The scores that were asked for and exist.

    Args:
        entailed: What follows from what; what no wanted score needs may be left out.
        wanted: Names in ``SCORES``.
    """
    answer = _of_answer(entailed)
    retrieved = _of_retrieval(entailed)
    noise = _of_noise(entailed)
    shares = {**answer, **retrieved, **noise}
    found = {name: hits / total for name, (hits, total) in shares.items() if total}
    recall, precision = found.get("recall"), found.get("precision")
    if recall is not None and precision is not None:
        both = recall + precision
        found["f1_score"] = 2 * recall * precision / both if both else 0.0
    return {name: found[name] for name in SCORES if name in wanted and name in found}


Share = tuple[int, int]
"""How many, of how many."""


def _of_answer(entailed: Entailed) -> dict[str, Share]:
    return {
        "recall": _share(entailed.target_by_answer),
        "precision": _share(entailed.answer_by_target),
    }


def _of_retrieval(entailed: Entailed) -> dict[str, Share]:
    by_answer = entailed.target_by_answer
    held = _by_any(entailed.target_by_chunk, len(by_answer))
    used = [a for a, h in zip(by_answer, held, strict=True) if h]
    return {
        "claim_recall": _share(held),
        "context_precision": _share(_relevant(entailed)),
        "context_utilization": _share(used),
    }


def _of_noise(entailed: Entailed) -> dict[str, Share]:
    right = entailed.answer_by_target
    n = len(entailed.answer_by_chunk[0]) if entailed.answer_by_chunk else len(right)
    relevant = _relevant(entailed)
    pairs = list(zip(entailed.answer_by_chunk, relevant, strict=False))
    from_relevant = _by_any([row for row, is_relevant in pairs if is_relevant], n)
    held = _by_any(entailed.answer_by_chunk, n)
    found = {"faithfulness": _share(held)}
    if len(right) != n:
        return found
    cases = list(zip(right, held, from_relevant, strict=True))
    return {
        **found,
        "noise_sensitivity_in_relevant": _share([not r and c for r, _, c in cases]),
        "noise_sensitivity_in_irrelevant": _share(
            [not r and h and not c for r, h, c in cases]
        ),
        "hallucination": _share([not r and not h for r, h, _ in cases]),
        "self_knowledge": _share([r and not h for r, h, _ in cases]),
    }


def _relevant(entailed: Entailed) -> list[bool]:
    """Whether each passage entails any claim of the target."""
    return [any(row) for row in entailed.target_by_chunk]


def _by_any(rows: Sequence[Sequence[bool]], n: int) -> list[bool]:
    """Whether any passage entails each of n claims."""
    return [any(row[claim] for row in rows) for claim in range(n)]


def _share(flags: Sequence[bool]) -> Share:
    return sum(flags), len(flags)
