"""A scored document on its way from a worker to the controller.

It travels as one bytes object on its report: plain Python values through ``marshal``,
which is many times cheaper than xdist's own encoding of nested values. Both ends are
processes of one session.
"""

from __future__ import annotations

import marshal
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record
from pytest_evals.core.request import Response
from pytest_evals.core.score import Score
from pytest_evals.errors import DocumentError
from pytest_evals.reports.examples import prompt_of

__all__ = ["Arrived", "pack", "unpack"]


class Arrived(NamedTuple):
    """What the controller gets of a document."""

    record: Record
    """Without requests; its responses are one with the counts of tokens."""
    lines: list[str]
    """Its lines of the samples file."""


def pack(record: Record, lines: list[str], example: Record | None) -> bytes:
    """A slim record as bytes.

    Args:
        record: Without requests and with one response, as ``pipeline.slim`` makes it.
        lines: Its lines of the samples file.
        example: The whole record, if it shall be shown to people.

    Raises:
        DocumentError: A score holds a value that is not plain Python.
    """
    counts = record.responses[0]
    shown = example or record
    scores = [
        (s.metric, s.filter, s.value, s.correct, s.answer[:_LONGEST], s.unscored)
        for s in shown.scores
    ]
    parts: Any = (
        record.task,
        record.index,
        record.doc.id,
        record.error,
        (counts.n_prompt_tokens, counts.n_tokens, counts.n_truncated),
        scores,
        lines,
        example
        and (prompt_of(example)[-_LONGEST:], [str(g) for g in _golds(example.doc)]),
    )
    try:
        return marshal.dumps(parts)
    except ValueError:
        kinds = ", ".join(sorted({type(s.value).__name__ for s in record.scores}))
        raise DocumentError(
            f"a score of type {kinds} cannot be sent from a worker\n"
            "  fix: let the scorer return numbers, texts, lists or mappings"
        ) from None


_LONGEST = 2_000
"""Characters of a prompt or an answer that travel with an example."""


def unpack(data: bytes) -> Arrived:
    """What :func:`pack` packed."""
    task, index, id_, error, counts, scores, lines, example = marshal.loads(data)
    doc = Doc("", [], 0, id=id_, task_name=task)
    if example:
        doc.query, doc.choices = example
        doc.gold_index = list(range(len(doc.choices)))
    n_prompt_tokens, n_tokens, n_truncated = counts
    record = Record(
        task=task,
        index=index,
        doc=doc,
        responses=(
            Response(
                n_prompt_tokens=n_prompt_tokens,
                n_tokens=n_tokens,
                n_truncated=n_truncated,
            ),
        ),
        scores=tuple(
            Score(metric=m, filter=f, value=v, correct=c, answer=a, unscored=u)
            for m, f, v, c, a, u in scores
        ),
        error=error,
    )
    return Arrived(record, lines)


def _golds(doc: Doc) -> list[Any]:
    try:
        return doc.get_golds()
    except IndexError:
        return []
