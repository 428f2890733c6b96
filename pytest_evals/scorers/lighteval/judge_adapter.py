"""Judges are asked in rounds: what all metrics of a document want to know next, and
whose reply is whose. It depends on what was asked and answered before, and on nothing
else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.dialogue import JUDGE, FollowUp, ModelSource, Turn
from pytest_evals.core.doc import Doc
from pytest_evals.scorers.lighteval.computed import Computed
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = ["Judged", "Part", "heard", "judge_models"]

_SESSIONS = "judge"
"""What follow-ups call the judge of the session."""


class Part(NamedTuple):
    """A metric that may ask judges about a document's answers."""

    metric: Computed
    doc: Doc
    response: ModelResponse


class Judged(NamedTuple):
    """How far judges have been asked.

    Args:
        replies: What each part has heard, in the order of the parts.
        wanted: What is to be asked next; empty if no part wants to know more.
    """

    replies: tuple[tuple[str, ...], ...]
    wanted: tuple[FollowUp, ...]


def judge_models(metrics: Iterable[Computed]) -> Mapping[str, ModelSource]:
    """Names in follow-ups → judges."""
    sources = [judge.source for metric in metrics for judge in metric.judges]
    return {source or _SESSIONS: source or JUDGE for source in sources}


def heard(parts: Sequence[Part], turns: Sequence[Turn]) -> Judged:
    """Hand the replies of all rounds to those who have asked for them.

    Args:
        parts: Metrics, always in the same order.
        turns: What was asked of judges so far, round by round.

    Raises:
        DocumentError: A judge gave no answer, or a metric cannot measure.
    """
    replies: list[tuple[str, ...]] = [()] * len(parts)
    left = list(turns)
    while True:
        questions = [
            part.metric.wants(part.doc, _with(part, replies[i]))
            for i, part in enumerate(parts)
        ]
        wanted = [one for mine in questions for one in mine]
        if not wanted or not left:
            asked = (FollowUp(one.model or _SESSIONS, one.request) for one in wanted)
            return Judged(tuple(replies), tuple(asked))
        for i, mine in enumerate(questions):
            answers, left = left[: len(mine)], left[len(mine) :]
            replies[i] += tuple(turn.text for turn in answers)


def _with(part: Part, replies: tuple[str, ...]) -> ModelResponse:
    return replace(part.response, judged={part.metric.names[0]: replies})
