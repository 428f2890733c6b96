"""Metrics rated by a judge model. Prompts and reply parsers are in :mod:`.prompts` or
in user code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.judges.prompts import (
    hle_prompt,
    hle_verdict,
    mt_bench_prompt,
    simpleqa_prompt,
    simpleqa_score,
    tagged_score,
)
from pytest_evals.scorers.custom_metrics.judge_lm import Reader, Template
from pytest_evals.scorers.custom_metrics.judged import JudgeLLM
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = [
    "JudgeLLM",
    "JudgeLLMHLE",
    "JudgeLLMMTBench",
    "JudgeLLMMixEval",
    "JudgeLLMSimpleQA",
]


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
        """Return the rating of each turn, from 1 to 10.

        Raises:
            DocumentError: There are fewer answers than turns.
        """
        specific = doc.specific or {}
        turns = list(specific.get("multi_turn_queries") or [doc.query])
        answers = list(model_response.final_text)
        if len(answers) < len(turns):
            raise DocumentError(
                f"expected one answer for each of {len(turns)} turns, got "
                f"{len(answers)}"
            )
        answers = answers[: len(turns)]
        golds = list(specific.get("reference") or [])
        golds += [None] * (len(turns) - len(golds))
        scores, _, _ = self.judge.evaluate_answer_batch(
            turns,
            answers,
            [None] * len(turns),
            golds[: len(turns)],
            talk=[_talk(turns[:i], answers[:i]) for i in range(len(turns))],
        )
        names = (f"judge_score_turn_{i + 1}" for i in range(len(turns)))
        return dict(zip(names, scores, strict=True))


def _talk(turns: Sequence[str], answers: Sequence[str]) -> str:
    pairs = zip(turns, answers, strict=True)
    return "\n".join(f"User: {turn}\nAssistant: {answer}" for turn, answer in pairs)


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
