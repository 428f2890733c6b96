"""Metrics rated by a judge model, with their prompts and parsers of replies. The
prompts are not the original ones.

Humanity's Last Exam (Phan et al. 2025, arXiv 2501.14249) has accuracy, the half-
width of its confidence interval, and a calibration error, which follows the authors'
script: root mean square over bins of 100 answers sorted by confidence. lighteval
(0.13.0) omits the last bin, and mixes percent with fractions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.aggregations import Aggregation, from_function
from pytest_evals.scorers.custom_metrics.aggregation import mean
from pytest_evals.scorers.custom_metrics.judged import JudgeLLM, Reader, Template
from pytest_evals.scorers.custom_metrics.metric import CorpusLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse


def simpleqa_score(reply: str) -> float | None:
    """Parse SimpleQA's grade: 1 for A (correct), 0 for B and C. Whitespace, case and a
    full stop are ignored."""
    letter = reply.strip().rstrip(".").upper()
    return {"A": 1.0, "B": 0.0, "C": 0.0}.get(letter)


def flow_score(reply: str) -> float | None:
    """Parse the digit between Flow-Judge's tags."""
    found = re.search(r"<score>\s(\d)\s</score>", reply)
    return int(found[1]) if found else None


def bracketed_verdict(reply: str) -> float | None:
    """Parse a 0 or 1 in double brackets."""
    found = re.search(r"\[\[([01])\]\]", reply)
    return int(found[1]) if found else None


def bracketed_number(reply: str) -> float | None:
    """Parse a number with one decimal in double brackets."""
    found = re.search(r"\[\[(\d\.\d)\]\]", reply)
    return float(found[1]) if found else None


def mean_dv_5(x: Sequence[float]) -> float:
    """Return the mean of ratings from 0 to 5, as a fraction."""
    return mean(x) / 5


def tagged_score(reply: str) -> float | None:
    """Parse the number between score tags, with any whitespace."""
    found = re.search(r"<score>\s*(\d+(?:\.\d+)?)\s*</score>", reply)
    return float(found[1]) if found else None


def hle_verdict(reply: str) -> tuple[int, float] | None:
    """Parse correctness, 1 or 0, and the answer's confidence, from 0 to 100."""
    correct = re.search(r"correct\W+(yes|no)\b", reply, re.IGNORECASE)
    sure = re.search(r"confidence\W+(\d+(?:\.\d+)?)", reply, re.IGNORECASE)
    if correct is None:
        return None
    confidence = float(sure[1]) if sure else 100.0
    return int(correct[1].lower() == "yes"), min(100.0, confidence)


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


BIN = 100
"""Minimum number of answers per bin."""


def calibration_error(confidence: Sequence[float], correct: Sequence[float]) -> float:
    """Return the root mean square, over bins, of mean confidence minus accuracy; both
    are between 0 and 1."""
    pairs = sorted(zip(confidence, correct, strict=True))
    n_bins = max(1, len(pairs) // BIN)
    total = 0.0
    for i in range(n_bins):
        part = pairs[i * BIN : (i + 1) * BIN if i + 1 < n_bins else None]
        total += len(part) / len(pairs) * _distance(part) ** 2
    return float(total**0.5)


def calib_err(
    confidence: Sequence[float], correct: Sequence[float], p: str = "2", beta: int = BIN
) -> float:
    """Return lighteval's calibration error; -1 with fewer answers than one bin.

    Args:
        confidence: Confidence, on the scale of ``correct``.
        correct: 1 or 0 per answer.
        p: Norm over bins: ``1``, ``2`` or ``infty``.
        beta: Answers per bin.
    """
    import numpy as np

    pairs = list(zip(confidence, correct, strict=True))
    if len(pairs) < beta:
        return -1
    # NumPy's sort order assigns ties to bins.
    pairs = [pairs[i] for i in np.argsort(np.array(confidence))]
    total = 0.0
    for i in range(len(pairs) // beta - 1):
        part = pairs[i * beta : (i + 1) * beta]
        share, distance = len(part) / len(pairs), _distance(part)
        if p == "2":
            total += share * distance**2
        elif p == "1":
            total += share * distance
        else:
            total = max(total, distance)
    return float(total**0.5 if p == "2" else total)


def _distance(part: Sequence[tuple[float, float]]) -> float:
    return abs(mean([c for c, _ in part]) - mean([right for _, right in part]))


@dataclass(frozen=True)
class CorpusLevelHLE(CorpusLevelComputation):
    """A metric of Humanity's Last Exam, from pairs of correctness and confidence in
    percent.

    Args:
        name: ``accuracy``, ``confidence_half_width`` or ``calibration_error``.
    """

    name: str

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """Compute the metric, in percent with two decimals."""
        correct = [float(item[0]) for item in items]
        share = sum(correct) / len(correct)
        if self.name == "accuracy":
            return round(100 * share, 2)
        if self.name == "calibration_error":
            sure = [float(item[1]) / 100 for item in items]
            return round(100 * calibration_error(sure, correct), 2)
        half: float = 1.96 * (share * (1 - share) / len(correct)) ** 0.5
        return round(100 * half, 2)

    def aggregation(self) -> Aggregation:
        """Return the aggregation, with a bootstrapped standard error."""
        return from_function(self.compute_corpus)


@dataclass
class JudgeLLMSimpleQA(JudgeLLM):
    """Whether a short factual answer is correct."""

    judge_model_name: str = "gpt-4o-2024-08-06"
    template: Template = simpleqa_prompt
    process_judge_response: Reader = simpleqa_score
    judge_backend: str = "openai"

    @property
    def name(self) -> str:
        """Return the name of its number."""
        return "simpleqa_judge"


@dataclass
class JudgeLLMMixEval(JudgeLLM):
    """MixEval's rating; the question is in ``doc.specific``."""

    def question(self, doc: Doc) -> str:
        """Return the question without options and instruction."""
        found = (doc.specific or {}).get("question")
        if not isinstance(found, str):
            raise DocumentError('specific["question"] must be a string')
        return found


@dataclass
class JudgeLLMMTBench(JudgeLLM):
    """MT-Bench's ratings, one for each turn of a dialogue.

    The user's turns are in ``specific["multi_turn_queries"]``, optional references in
    ``specific["reference"]``. There must be one answer per turn.
    """

    judge_model_name: str = "flowaicom/Flow-Judge-v0.1"
    template: Template = mt_bench_prompt
    process_judge_response: Reader = tagged_score
    judge_backend: str = "vllm"

    def measure(self, doc: Doc, model_response: ModelResponse) -> Any:
        """Return the rating of each turn, from 1 to 10."""
        specific = doc.specific or {}
        turns = list(specific.get("multi_turn_queries") or [doc.query])
        answers = list(model_response.final_text)
        if len(answers) < len(turns):
            raise DocumentError(
                f"expected one answer for each of {len(turns)} turns, got "
                f"{len(answers)}"
            )
        n, answers = len(turns), answers[: len(turns)]
        golds = [*(specific.get("reference") or []), *[None] * n][:n]
        pairs = zip(turns, answers, strict=True)
        talk = [f"User: {turn}\nAssistant: {answer}" for turn, answer in pairs]
        earlier = ["\n".join(talk[:i]) for i in range(n)]
        scores, _, _ = self.judge.evaluate_answer_batch(
            turns, answers, [None] * n, golds, talk=earlier
        )
        return {f"judge_score_turn_{i + 1}": score for i, score in enumerate(scores)}


@dataclass
class JudgeLLMHLE(JudgeLLM):
    """Correctness and confidence of an answer of Humanity's Last Exam."""

    judge_model_name: str = "gpt-4o-2024-08-06"
    template: Template = hle_prompt
    process_judge_response: Reader = hle_verdict
    judge_backend: str = "openai"
    max_tokens: int | None = 2048

    def measure(self, doc: Doc, model_response: ModelResponse) -> Any:
        """Return the pair of both, for each number computed from it."""
        verdict = self.scores(doc, model_response)[0]
        names = ("accuracy", "confidence_half_width", "calibration_error")
        return dict.fromkeys(names, verdict)
