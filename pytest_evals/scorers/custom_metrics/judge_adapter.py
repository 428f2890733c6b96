"""Adapter between a metric that calls judges in its ``compute`` and a dialogue.

The metric runs with the available replies. If it needs another one, it is interrupted
(see :mod:`.judges.judge_lm`), its requests are yielded, and it runs again. It must
therefore depend only on its document and the replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.dialogue import (
    JUDGE,
    Ask,
    Dialogue,
    ModelSource,
    ReadAsk,
    together,
)
from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Response
from pytest_evals.scorers.custom_metrics.judge_lm import JudgeQuestion
from pytest_evals.scorers.custom_metrics.response import ModelResponse
from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric

_SESSION_JUDGE = "judge"
"""The name of the session's judge in ``Ask.model``."""


class JudgedMetric(NamedTuple):
    """A metric with a document and its response."""

    metric: TaskMetric
    doc: Doc
    response: ModelResponse


def judge_models(metrics: Iterable[TaskMetric]) -> Mapping[str, ModelSource]:
    """Return the judges of metrics, by their names in ``Ask.model``."""
    sources = [judge.source for metric in metrics for judge in metric.judges]
    return {source or _SESSION_JUDGE: source or JUDGE for source in sources}


def judge_dialogues(parts: Sequence[JudgedMetric]) -> Dialogue[list[ModelResponse]]:
    """Run :func:`judge_dialogue` for several metrics, always in the same order."""
    return together([judge_dialogue(part) for part in parts])


def _ask(question: JudgeQuestion) -> Ask:
    model = question.model or _SESSION_JUDGE
    return ReadAsk(model, question.request, lambda one: question.read(_text(one)))


def _text(response: Response) -> str:
    return response.raise_for_error().text


def judge_dialogue(
    part: JudgedMetric,
    ask: Callable[[JudgeQuestion], Ask] = _ask,
    read: Callable[[Response], str] = _text,
) -> Dialogue[ModelResponse]:
    """Query the judges of a metric; return the response with their replies. Raises
    DocumentError if a judge request failed, or the document cannot be scored."""
    metric, doc, response = part
    replies: tuple[str, ...] = ()
    while True:
        judged = replace(response, judge_replies={metric.names[0]: replies})
        questions = metric.pending_questions(doc, judged)
        if not questions:
            return judged
        responses = yield [ask(question) for question in questions]
        replies += tuple(map(read, responses))
