"""Judges of metrics: their synchronous interface (lighteval 0.13.0,
``metrics/utils/llm_as_judge.py``, ``JudgeLM``), and a metric that a judge rates.

No request is sent here. A metric runs with the replies that are available; if it needs
another one, it is interrupted, its requests are sent in a batch with those of other
documents, and it runs again. A metric must therefore send the same requests each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Generate, Message, Role
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.custom_metrics.metric import SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

Template = Callable[..., Sequence[Mapping[str, str]]]
"""Function of question, options, answer and gold, by name, that returns messages."""
Reader = Callable[[str], Any]
"""Function from a reply to its score; ``None`` if it has no score."""
MAX_TOKENS = 512  # default maximum number of tokens of a reply


class NoScoreError(DocumentError):
    """A judge's reply contains no score."""


class JudgeQuestion(NamedTuple):
    """A request to a judge; ``model`` is empty for the session's judge. ``read`` reads
    the reply, and raises :class:`NoScoreError`."""

    model: str
    request: Generate
    read: Reader


class PendingQuestions(BaseException):
    """A metric needs replies that are not available yet."""

    def __init__(self, questions: Sequence[JudgeQuestion]) -> None:
        super().__init__("judge called outside of a run")
        self.questions = tuple(questions)


class ReplyQueue:
    """Replies to a metric's questions about a document, in order."""

    def __init__(self, replies: Sequence[str]) -> None:
        self._replies, self._next = tuple(replies), 0

    def answers(self, questions: Sequence[JudgeQuestion]) -> tuple[str, ...]:
        """Return the replies to the next questions. Raises PendingQuestions if the
        replies are not available yet."""
        end = self._next + len(questions)
        if end > len(self._replies):
            raise PendingQuestions(questions)
        replies = self._replies[self._next : end]
        self._next = end
        return replies


class JudgeLM:
    """A judge model."""

    def __init__(  # noqa: PLR0913 - lighteval's constructor
        self,
        model: str,
        templates: Template,
        process_judge_response: Reader,
        judge_backend: str = "",
        url: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = None,
        response_format: Any = None,
        hf_provider: str | None = None,
        backend_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the judge's settings. Ignored, and not stored: ``judge_backend``,
        ``url``, ``api_key``, ``response_format``, ``hf_provider``, ``backend_options``.

        Args:
            model: ``KIND:TARGET`` as for ``--model``; with any other name the session's
                judge is used.
            templates: Builds the messages.
            process_judge_response: Reads the score from a reply.
            max_tokens: Maximum number of tokens of a reply.
        """
        self.model, self.template = model, templates
        self.process_judge_response = process_judge_response
        self.max_tokens = max_tokens
        self._queue: ReplyQueue | None = None

    @property
    def source(self) -> str:
        """Return the spec of its model; empty for the session's judge."""
        return self.model if ":" in self.model else ""

    @contextmanager
    def answering_from(self, queue: ReplyQueue) -> Iterator[None]:
        """Use these replies within the context."""
        before, self._queue = self._queue, queue
        try:
            yield
        finally:
            self._queue = before

    def dict_of_lists_to_list_of_dicts(
        self, dict_of_lists: Mapping[str, Sequence[Any]]
    ) -> list[dict[str, Any]]:
        """Transpose a mapping of lists; a method in lighteval."""
        return dict_of_lists_to_list_of_dicts(dict_of_lists)

    def evaluate_answer(
        self,
        question: str,
        answer: str,
        options: list[str] | None = None,
        gold: str | None = None,
    ) -> tuple[Any, Any, str]:
        """Return score, prompt and reply for one answer."""
        scores, prompts, replies = self.evaluate_answer_batch(
            [question], [answer], [options], [gold]
        )
        return scores[0], prompts[0], replies[0]

    def evaluate_answer_batch(
        self,
        questions: Sequence[str],
        answers: Sequence[str],
        options: Sequence[Any] | None = None,
        golds: Sequence[Any] | None = None,
        **kwargs: Sequence[Any],
    ) -> tuple[list[Any], list[Any], list[str]]:
        """Return scores, prompts and replies for several answers. Raises NoScoreError
        if a reply has no score; DocumentError if called outside of a run;
        PendingQuestions if replies are not available yet."""
        n = len(questions)
        more = dict_of_lists_to_list_of_dicts(kwargs) if kwargs else [{}] * n
        none = [None] * n
        columns = questions, options or none, answers, golds or none, more
        prompts = [
            self.template(question=q, options=o, answer=a, gold=g, **rest)
            for q, o, a, g, rest in zip(*columns, strict=True)
        ]
        if self._queue is None:
            why = f"the judge {self.model} can only be called during a run"
            raise DocumentError(why)
        requests = [
            JudgeQuestion(self.source, self._request(prompt), self._score)
            for prompt in prompts
        ]
        replies = list(self._queue.answers(requests))
        return [self._score(reply) for reply in replies], prompts, replies

    def _request(self, messages: Sequence[Mapping[str, str]]) -> Generate:
        chat = tuple(Message(cast("Role", m["role"]), m["content"]) for m in messages)
        return Generate(chat, max_tokens=self.max_tokens or MAX_TOKENS)

    def _score(self, reply: str) -> Any:
        score = self.process_judge_response(reply)
        if score is None:
            raise NoScoreError(f"the judge's reply has no score: {reply!r:.200}")
        return score


def judges_in(computation: Any) -> list[JudgeLM]:
    """Return the judges in the attributes of a computation."""
    renamed = getattr(computation, "computation", computation)
    values = getattr(renamed, "__dict__", {}).values()
    return [value for value in values if isinstance(value, JudgeLM)]


def dict_of_lists_to_list_of_dicts(
    dict_of_lists: Mapping[str, Sequence[Any]],
) -> list[dict[str, Any]]:
    """Transpose a mapping of lists to a list of mappings. Raises ValueError if the
    lists have different lengths."""
    names = list(dict_of_lists)
    rows = zip(*dict_of_lists.values(), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


@dataclass
class JudgeLLM(SampleLevelComputation):
    """The mean judge score of a document's answers. Fields as in :class:`JudgeLM`;
    ``short_judge_name`` is part of the name of the number. Not frozen, because task
    modules derive classes from it."""

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
