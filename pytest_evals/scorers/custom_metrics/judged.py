"""A metric that a judge model rates. Prompt and reply parser are the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.custom_metrics.judge_lm import JudgeLM, Reader, Template
from pytest_evals.scorers.custom_metrics.metric import SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse


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
        scores = self.scores(doc, model_response)
        return {self.name: sum(scores) / len(scores)}

    def scores(self, doc: Doc, response: ModelResponse) -> list[Any]:
        """Return the score of each answer."""
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
