"""Metrics that another model says: what it is asked about an answer, and how its reply
is read.

Nothing is asked here. :meth:`JudgeLLM.requests` gives the requests of a document and
:meth:`JudgeLLM.read` makes values of their replies; whoever has a judge calls the two.
A reply that cannot be read leaves the document without a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Generate, Message, Role
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.lighteval.metric import SampleLevelComputation
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = [
    "JudgeLLM",
    "JudgeLLMMixEval",
    "JudgeLLMSimpleQA",
    "bracketed_number",
    "bracketed_verdict",
    "dict_of_lists_to_list_of_dicts",
    "flow_score",
    "simpleqa_prompt",
    "simpleqa_score",
]

Template = Callable[..., Sequence[Mapping[str, str]]]
"""Question, options, answer and gold, by name, to the messages for the judge."""
Reader = Callable[[str], float | None]
"""A reply to the score; ``None`` if it has none."""
MAX_TOKENS = 512
"""Most tokens of a reply where nothing else is given."""


def simpleqa_score(reply: str) -> float | None:
    """SimpleQA's verdict: 1 for A (correct), 0 for B and C; white space, case and a
    full stop do not count."""
    letter = reply.strip().rstrip(".").upper()
    return {"A": 1.0, "B": 0.0, "C": 0.0}.get(letter)


def flow_score(reply: str) -> float | None:
    """The digit between Flow-Judge's tags."""
    found = re.search(r"<score>\s(\d)\s</score>", reply)
    return int(found[1]) if found else None


def bracketed_verdict(reply: str) -> float | None:
    """The 0 or 1 in double brackets."""
    found = re.search(r"\[\[([01])\]\]", reply)
    return int(found[1]) if found else None


def bracketed_number(reply: str) -> float | None:
    """The number with a decimal in double brackets."""
    found = re.search(r"\[\[(\d\.\d)\]\]", reply)
    return float(found[1]) if found else None


def dict_of_lists_to_list_of_dicts(
    dict_of_lists: Mapping[str, Sequence[Any]],
) -> list[dict[str, Any]]:
    """One mapping for each position of the lists.

    Raises:
        ValueError: They are not all as long.
    """
    names = list(dict_of_lists)
    rows = zip(*dict_of_lists.values(), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def simpleqa_prompt(
    question: str, answer: str, gold: str | None = None, options: Any = None
) -> list[dict[str, str]]:
    """What a judge is asked about a short factual answer, after SimpleQA (Wei et al.
    2024, arXiv 2411.04368); in words of our own, so that grades may differ from those
    of OpenAI's wording."""
    text = (
        "Grade an answer to a question by its gold target.\n"
        "A: CORRECT. It says all that the target says and contradicts none of it; "
        "wording, spelling of names and further true details do not matter.\n"
        "B: INCORRECT. Something in it contradicts the target, even if it is hedged.\n"
        "C: NOT_ATTEMPTED. It contradicts nothing, and does not say all of the target."
        f"\n\nQuestion: {question}\nGold target: {gold}\nAnswer: {answer}\n\n"
        "Reply with the letter A, B or C alone."
    )
    return [{"role": "user", "content": text}]


@dataclass(frozen=True)
class JudgeLLM(SampleLevelComputation):
    """A metric that a judge says.

    Args:
        judge_model_name: Which model judges; whoever asks it may have another one.
        template: What it is asked.
        process_judge_response: How its reply is read.
        judge_backend: Where lighteval would ask it.
        short_judge_name: In the name of its number.
        response_format: What form the reply has, for judges that take one.
        max_tokens: Most tokens of its reply.
        options: Further options of lighteval's (url, api_key, hf_provider,
            backend_options); whoever asks decides about these.
    """

    judge_model_name: str
    template: Template
    process_judge_response: Reader
    judge_backend: str = ""
    short_judge_name: str | None = None
    response_format: Any = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its number."""
        return f"judge_score_{self.short_judge_name or self.judge_model_name}"

    def requests(self, doc: Doc, response: ModelResponse) -> tuple[Generate, ...]:
        """What the judge is asked about a document's answers, one request each.

        Raises:
            DocumentError: There is no answer.
        """
        if not response.final_text:
            raise DocumentError("there is no answer to judge")
        golds = doc.get_golds()
        return tuple(
            self._request(
                self.template(
                    question=self.question(doc),
                    options=doc.choices,
                    answer=answer,
                    gold=golds[0] if golds else None,
                )
            )
            for answer in response.final_text
        )

    def question(self, doc: Doc) -> str:
        """The question as the judge sees it."""
        return doc.query

    def _request(self, messages: Sequence[Mapping[str, str]]) -> Generate:
        chat = tuple(Message(cast("Role", m["role"]), m["content"]) for m in messages)
        return Generate(chat, max_tokens=self.max_tokens or MAX_TOKENS)

    def read(self, replies: Sequence[str]) -> dict[str, float]:
        """The mean score of the replies, by name.

        Raises:
            DocumentError: One of them has no score.
        """
        scores = [self.process_judge_response(reply) for reply in replies]
        for reply, score in zip(replies, scores, strict=True):
            if score is None:
                raise DocumentError(f"the judge's reply has no score: {reply!r:.200}")
        kept = [score for score in scores if score is not None]
        return {self.name: sum(kept) / len(kept)}

    def compute(self, doc: Doc, model_response: ModelResponse, **more: Any) -> Any:
        """Nothing: a judge has to be asked.

        Raises:
            DocumentError: Always.
        """
        raise DocumentError(f"{self.name} needs a judge, and none was asked")


@dataclass(frozen=True)
class JudgeLLMSimpleQA(JudgeLLM):
    """Whether a short factual answer is correct."""

    judge_model_name: str = "gpt-4o-2024-08-06"
    template: Template = simpleqa_prompt
    process_judge_response: Reader = simpleqa_score
    judge_backend: str = "openai"

    @property
    def name(self) -> str:
        """The name of its number."""
        return "simpleqa_judge"


@dataclass(frozen=True)
class JudgeLLMMixEval(JudgeLLM):
    """MixEval's grade, whose question stands in ``doc.specific``."""

    def question(self, doc: Doc) -> str:
        """The question without options and instruction.

        Raises:
            DocumentError: It is not there.
        """
        found = (doc.specific or {}).get("question")
        if not isinstance(found, str):
            raise DocumentError('the question is wanted in specific["question"]')
        return found
