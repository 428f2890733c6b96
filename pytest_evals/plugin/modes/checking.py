"""What is wrong with a task as far as no model is needed to see it.

Its file has been read and its rows were looked at before; here its first documents are
rendered, answered as if by somebody who knows, and scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Request, Response
from pytest_evals.core.task import Task
from pytest_evals.errors import Problem
from pytest_evals.pipeline import ask, score

__all__ = ["FIRST", "problems_of"]

FIRST = 5
"""Documents of a task that are tried."""


def problems_of(
    task: Task, documents: Mapping[int, str], *, scores: bool
) -> list[Problem]:
    """The problems of a task's first documents; one text is told once.

    Args:
        task: The task.
        documents: Its documents, position to id.
        scores: Whether its own scoring is used, and is to be tried.
    """
    found: dict[str, Problem] = {}
    for index, id_ in islice(documents.items(), FIRST):
        for what, why in _faults(task, index, scores=scores):
            text = f"document {id_} {what}: {why}"
            found.setdefault(why, Problem(text, task.source))
    return list(found.values())


def _faults(task: Task, index: int, *, scores: bool) -> Iterator[tuple[str, str]]:
    record = ask(task, index)
    if record.error:
        yield "cannot be asked", record.error
    elif scores and task.follow_up is None:  # what is asked later has no answer here
        error = score(_answered(record), task).error
        if error:
            yield "cannot be scored, though answered with its target", error


def _answered(record: Record) -> Record:
    """The record with an answer to each request: the target, and the first choice."""
    answers = (_answer(record, q, i) for i, q in enumerate(record.requests))
    return replace(record, responses=tuple(answers))


def _answer(record: Record, request: Request, position: int) -> Response:
    if isinstance(request, Generate):
        try:
            golds = record.doc.get_golds()
        except IndexError:
            golds = []
        target = record.doc.target
        text = str(golds[0]) if golds else target if isinstance(target, str) else ""
        return Response(text=text, finish="stop", n_prompt_tokens=1, n_tokens=1)
    greedy = position == 0 if isinstance(request, Loglikelihood) else None
    logprob = -1.0 - position
    return Response(logprob=logprob, greedy=greedy, n_prompt_tokens=1, n_tokens=1)
