"""The adapter between a metric that calls judges in its ``compute`` and a dialogue.

The metric runs with the replies that are known. When it needs another one it is broken
off, see :mod:`.judges.judge_lm`; its requests are yielded, and it runs again. So it
depends on nothing but its document and the replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.dialogue import JUDGE, Ask, Dialogue, ModelSource, together
from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Response
from pytest_evals.scorers.lighteval.judges.judge_lm import JudgeQuestion
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.task_metric import TaskMetric

_SESSIONS = "judge"
"""The name of the session's judge in ``Ask.model``."""


class JudgedMetric(NamedTuple):
    """A metric, and the document and response that it measures."""

    metric: TaskMetric
    doc: Doc
    response: ModelResponse


def judge_models(metrics: Iterable[TaskMetric]) -> Mapping[str, ModelSource]:
    """The judges of metrics, by their names in ``Ask.model``."""
    sources = [judge.source for metric in metrics for judge in metric.judges]
    return {source or _SESSIONS: source or JUDGE for source in sources}


def judge_dialogues(parts: Sequence[JudgedMetric]) -> Dialogue[list[ModelResponse]]:
    """:func:`judge_dialogue` of several metrics, always in the same order."""
    return together([judge_dialogue(part) for part in parts])


def _ask(question: JudgeQuestion) -> Ask:
    return Ask(question.model or _SESSIONS, question.request)


def _text(response: Response) -> str:
    return response.raise_for_error().text


def judge_dialogue(
    part: JudgedMetric,
    ask: Callable[[JudgeQuestion], Ask] = _ask,
    read: Callable[[Response], str] = _text,
) -> Dialogue[ModelResponse]:
    """Ask the judges of a metric; the result is its response with their replies.

    Args:
        part: The metric, with what it measures.
        ask: Makes a request of a question.
        read: Reads a reply.

    Raises:
        DocumentError: A judge gave no answer, or the metric cannot measure.
    """
    metric, doc, response = part
    replies: tuple[str, ...] = ()
    while True:
        heard = replace(response, judge_replies={metric.names[0]: replies})
        questions = metric.pending_questions(doc, heard)
        if not questions:
            return heard
        responses = yield [ask(question) for question in questions]
        replies += tuple(map(read, responses))
