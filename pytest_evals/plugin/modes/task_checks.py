"""Check a task without a model.

Its file has been read and its rows were looked at before; here all its documents are
rendered, and the first of them answered with their targets and scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Request, Response
from pytest_evals.core.task import Task
from pytest_evals.errors import Problem
from pytest_evals.run.plan import ask
from pytest_evals.run.records import score

FIRST = 5
"""Documents of a task that are scored."""
_UNASKED = "cannot be prompted"


def problems_of(
    task: Task, documents: Mapping[int, str], *, scores: bool
) -> list[Problem]:
    """Return the problems of a task's documents; equal ones are merged.

    Args:
        documents: Its documents, position to id.
        scores: Whether its own scoring is used, and is to be tried.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for n, (index, id_) in enumerate(documents.items()):
        for fault in _faults(task, index, scores=scores and n < FIRST):
            found.setdefault(fault, []).append(id_)
    return [
        Problem(f"document {ids[0]} {what}{_counted(what, ids)}: {why}", task.source)
        for (what, why), ids in found.items()
    ]


def _counted(what: str, ids: Sequence[str]) -> str:
    """Return the number of documents; only the first ones are scored."""
    several = what == _UNASKED and len(ids) > 1
    return f" ({len(ids):,} documents in all)" if several else ""


def _faults(task: Task, index: int, *, scores: bool) -> Iterator[tuple[str, str]]:
    record = ask(task, index)
    if record.error:
        yield _UNASKED, record.error
    elif scores and task.follow_up is None:  # follow-up requests have no answer here
        error = score(_answered(record), task).error
        if error:
            yield "cannot be scored, though answered with its target", error


def _answered(record: Record) -> Record:
    """Return the record with a response to each request: the target, and the first
    choice."""
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
