"""Prompts for judges, and parsers of their replies. The prompts are not the original
ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.scorers.custom_metrics.aggregation import mean


def simpleqa_score(reply: str) -> float | None:
    """Parse SimpleQA's grade: 1 for A (correct), 0 for B and C. Whitespace, case and a
    full stop are ignored."""
    letter = reply.strip().rstrip(".").upper()
    return {"A": 1.0, "B": 0.0, "C": 0.0}.get(letter)


def flow_score(reply: str) -> float | None:
    """Parse the digit between Flow-Judge's tags."""
    found = re.search(r"<score>\s(\d)\s</score>", reply)
    return int(found[1]) if found else None


def tagged_score(reply: str) -> float | None:
    """Parse the number between score tags, with any whitespace."""
    found = re.search(r"<score>\s*(\d+(?:\.\d+)?)\s*</score>", reply)
    return float(found[1]) if found else None


def bracketed_verdict(reply: str) -> float | None:
    """Parse a 0 or 1 in double brackets."""
    found = re.search(r"\[\[([01])\]\]", reply)
    return int(found[1]) if found else None


def bracketed_number(reply: str) -> float | None:
    """Parse a number with one decimal in double brackets."""
    found = re.search(r"\[\[(\d\.\d)\]\]", reply)
    return float(found[1]) if found else None


def hle_verdict(reply: str) -> tuple[int, float] | None:
    """Parse correctness, 1 or 0, and the answer's confidence, from 0 to 100."""
    correct = re.search(r"correct\W+(yes|no)\b", reply, re.IGNORECASE)
    sure = re.search(r"confidence\W+(\d+(?:\.\d+)?)", reply, re.IGNORECASE)
    if correct is None:
        return None
    confidence = float(sure[1]) if sure else 100.0
    return int(correct[1].lower() == "yes"), min(100.0, confidence)


def mean_dv_5(x: Sequence[float]) -> float:
    """Return the mean of ratings from 0 to 5, as a fraction."""
    return mean(x) / 5


def _user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def simpleqa_prompt(
    question: str, answer: str, gold: str | None = None, options: Any = None
) -> list[dict[str, str]]:
    """Return the prompt for a short factual answer, after SimpleQA (Wei et al. 2024,
    arXiv 2411.04368). Grades may differ from those of the original prompt."""
    return _user(
        "Grade an answer to a question by its gold target.\n"
        "A: CORRECT. It says all that the target says and contradicts none of it; "
        "wording, spelling of names and further true details do not matter.\n"
        "B: INCORRECT. Something in it contradicts the target, even if it is hedged.\n"
        "C: NOT_ATTEMPTED. It contradicts nothing, and does not say all of the target."
        f"\n\nQuestion: {question}\nGold target: {gold}\nAnswer: {answer}\n\n"
        "Reply with the letter A, B or C alone."
    )


def hle_prompt(
    question: str, answer: str, gold: str | None = None, options: Any = None
) -> list[dict[str, str]]:
    """Return the prompt for an answer of Humanity's Last Exam (Phan et al. 2025, arXiv
    2501.14249)."""
    return _user(
        "Decide whether the response gives the correct final answer. Do not solve the "
        "problem yourself; small differences of rounding or wording do not matter.\n\n"
        f"[question] {question}\n\n[response] {answer}\n\n[correct answer] {gold}\n\n"
        "Reply with four lines:\n"
        "extracted_final_answer: what the response says in the end, or None\n"
        "reasoning: why that is or is not the correct answer\n"
        "correct: yes or no\n"
        "confidence: how sure the response is, from 0 to 100; 100 if it does not say"
    )


def mt_bench_prompt(
    question: str,
    answer: str,
    gold: str | None = None,
    options: Any = None,
    **before: Mapping[str, str],
) -> list[dict[str, str]]:
    """Return the prompt for an answer in a dialogue (Zheng et al. 2023, arXiv
    2306.05685).

    Args:
        question: The user's last turn.
        answer: The assistant's answer to it.
        gold: A reference, if there is one.
        options: Ignored.
        before: ``talk`` contains the earlier turns.
    """
    talk = str(before.get("talk") or "")
    earlier = f"[earlier in the talk]\n{talk}\n\n" if talk else ""
    reference = f"[reference answer]\n{gold}\n\n" if gold else ""
    return _user(
        "Grade the assistant's last answer: is it helpful, relevant, correct, deep and "
        "detailed enough? Do not let its length or style sway you.\n\n"
        f"{earlier}[question]\n{question}\n\n{reference}[answer]\n{answer}\n\n"
        "Explain in a few sentences, then give a whole number from 1 to 10 as "
        "<score> 7 </score>."
    )
