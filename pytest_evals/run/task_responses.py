"""Responses as tasks read them: refusals, and reasoning in answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.reasoning import (
    after_tags,
    begins_with_reasoning,
    ends_in_reasoning,
    is_unfinished,
    reasoning_tags,
    without_reasoning,
)
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.task import Task

_STOPPED = (
    "the task's stop strings ended answers inside the model's reasoning, which is "
    "scored as the answer; set until: [] and a larger max_gen_toks, or "
    "think_end_token= of hf:, vllm: and openai: models"
)


def changes_responses(task: Task) -> bool:
    """Whether :func:`as_read` may change a response."""
    return bool(task.reasoning_tags) or task.refusals == "answer"


def as_read(response: Response, task: Task) -> Response:
    """A response of the tested model as its task reads it: a refusal is the answer, and
    answers have no reasoning, if the task or an option sets that."""
    if response.is_refusal and task.refusals == "answer":
        response = replace(response, error="")
    if task.reasoning_tags and response.text:
        text = after_tags(response.text, task.reasoning_tags)
        response = replace(response, text=text)
    return response


def read_by(task: Task, record: Record) -> Record:
    """The record with its responses as its task reads them."""
    if not record.responses or not changes_responses(task):
        return record
    responses = tuple(as_read(one, task) for one in record.responses)
    error = next((one.error for one in responses if one.error), "")
    return replace(record, responses=responses, error=error)


class _Answer(NamedTuple):
    """An answer of the tested model; ``visible`` is its text without reasoning."""

    text: str
    visible: str
    tags: tuple[str, str]
    is_stopped: bool

    @property
    def has_reasoning(self) -> bool:
        closing = self.tags[1]
        return bool(closing) or begins_with_reasoning(self.text) or self.is_stopped


class ReasoningWarnings:
    """Warnings about reasoning that is scored as a part of answers.

    All documents have the same two warnings, so that each is shown once: the first
    document determines the tags in the text.
    """

    def __init__(self, *, is_removed: bool) -> None:
        """``is_removed``: whether the model removes reasoning itself, so that a prompt
        that begins it says nothing about answers."""
        self._is_removed = is_removed
        self._text = ""

    def of(self, record: Record, task: Task) -> str:
        """The warning about a scored document; empty for none."""
        if task.reasoning_tags == () or record.error or not record.scores:
            return ""
        answers = [
            _answer(request, response, may_open=not self._is_removed)
            for request, response in record.own_pairs
            if isinstance(request, Generate) and not response.error
        ]
        found = [one for one in answers if one.has_reasoning]
        if not found or _is_unscored(record.scores, answers):
            return ""
        if any(one.is_stopped for one in found):
            return _STOPPED
        self._text = self._text or _text(*found[0].tags)
        return self._text


def _answer(request: Generate, response: Response, *, may_open: bool) -> _Answer:
    text, prompt = response.text, request.prompt
    end = prompt if isinstance(prompt, str) else prompt[-1].content
    tags = reasoning_tags(text)
    is_inside = may_open and not tags[1] and ends_in_reasoning(end)
    can_stop = response.finish == "stop" and any(request.stop)
    return _Answer(
        text,
        "" if is_inside else without_reasoning(text),
        tags,
        can_stop and (is_inside or is_unfinished(text)),
    )


def _is_unscored(scores: tuple[Score, ...], answers: list[_Answer]) -> bool:
    """Whether no score uses the reasoning: what it compares is a part of the answer
    without it. Metrics of lighteval have that in ``answer``, generated choices in
    ``filtered``."""
    visible = [_folded(one.visible) for one in answers]

    def is_part(texts: Iterable[str]) -> bool:
        return all(any(_folded(one) in text for text in visible) for one in texts)

    return all(
        (one.answer and is_part([one.answer]))
        or (one.filtered and is_part(_strings(one.filtered)))
        for one in scores
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _text(opening: str, closing: str) -> str:
    opening = opening or closing.replace("/", "", 1)
    closing = closing or f"{opening[:1]}/{opening[1:]}"
    return (
        f"answers contain reasoning that ends with {closing}, and it is scored as a "
        f"part of them; remove it with --evals-reasoning-tags=\"[('{opening}', "
        f"'{closing}')]\", or think_end_token={closing} of hf:, vllm: and openai: "
        "models"
    )
