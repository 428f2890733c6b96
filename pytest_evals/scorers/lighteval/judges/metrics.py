"""Metrics rated by a judge model. Prompts and reply parsers are in :mod:`.prompts` or
in user code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.lighteval.judges.judge_lm import JudgeLM, Reader, Template
from pytest_evals.scorers.lighteval.judges.prompts import (
    hle_prompt,
    hle_verdict,
    mt_bench_prompt,
    simpleqa_prompt,
    simpleqa_score,
    tagged_score,
)
from pytest_evals.scorers.lighteval.metric import SampleLevelComputation
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = [
    "JudgeLLM",
    "JudgeLLMHLE",
    "JudgeLLMMTBench",
    "JudgeLLMMixEval",
    "JudgeLLMSimpleQA",
]


@dataclass
class JudgeLLM(SampleLevelComputation):
    """The mean judge score of a document's answers.

    Fields as in :class:`~.judge_lm.JudgeLM`; ``short_judge_name`` is part of the name
    of the number. Not frozen, because task modules derive classes from it.
    """

    judge_model_name: str
    template: Template
    process_judge_response: Reader
    judge_backend: str = ""
    short_judge_name: str | None = None
    response_format: Any = None
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    hf_provider: str | None = None
    max_tokens: int | None = None
    backend_options: Mapping[str, Any] | None = None
    judge: JudgeLM = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Create the judge."""
        self.judge = JudgeLM(
            model=self.judge_model_name,
            templates=self.template,
            process_judge_response=self.process_judge_response,
            max_tokens=self.max_tokens,
        )

    @property
    def name(self) -> str:
        """Return the name of its number."""
        return f"judge_score_{self.short_judge_name or self.judge_model_name}"

    def question(self, doc: Doc) -> str:
        """Return the question for the judge."""
        return doc.query

    def measure(self, doc: Doc, model_response: ModelResponse) -> Any:
        """Compute the mean score, by name."""
        scores = self._scores(doc, model_response)
        return {self.name: sum(scores) / len(scores)}

    def _scores(self, doc: Doc, response: ModelResponse) -> list[Any]:
        answers = response.final_text
        if not answers:
            raise DocumentError("the response has no answer to judge")
        golds, n = doc.get_golds() if doc.choices else [], len(answers)
        scores, _, _ = self.judge.evaluate_answer_batch(
            [self.question(doc)] * n,
            answers,
            [doc.choices] * n,
            [golds[0] if golds else None] * n,
        )
        return scores


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
        verdict = self._scores(doc, model_response)[0]
        names = ("accuracy", "confidence_half_width", "calibration_error")
        return dict.fromkeys(names, verdict)
