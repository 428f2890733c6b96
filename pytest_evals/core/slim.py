"""What is kept of a document when its rows are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record
from pytest_evals.core.request import Response
from pytest_evals.core.score import Score


def slim(record: Record) -> Record:
    """The record without what only models and sample files need.

    The tested model's token counts stay, as one response that has nothing else, but for
    ``finish``: it is "length" if an answer was cut short. Called
    for each document, so what is equal in many of them is made once: records are
    frozen.
    """
    n_prompt_tokens = n_tokens = n_truncated = 0
    for response in record.said:
        n_prompt_tokens += response.n_prompt_tokens
        n_tokens += response.n_tokens
        n_truncated += response.n_truncated
    return Record(
        task=record.task,
        index=record.index,
        doc=bare_doc(record.doc.id),
        responses=_counts(n_prompt_tokens, n_tokens, n_truncated, record.cut_short),
        scores=tuple([_bare(score) for score in record.scores]),
        error=record.error,
        excluded=record.excluded,
        labels=record.labels,
        compared=record.compared,
        facts=record.facts,
    )


@lru_cache(maxsize=4096)
def _counts(
    n_prompt_tokens: int, n_tokens: int, n_truncated: int, cut_short: bool
) -> tuple[Response, ...]:
    counts = Response(
        n_prompt_tokens=n_prompt_tokens,
        n_tokens=n_tokens,
        n_truncated=n_truncated,
        finish="length" if cut_short else "",
    )
    return (counts,)


_NOTHING: Any = ()
"""Instead of an empty list, which must not be shared, in hundreds of thousands."""


def bare_doc(id_: str) -> Doc:
    """A document of which nothing but the id is kept."""
    return Doc(
        "",
        _NOTHING,
        0,
        id=id_,
        fewshot_samples=_NOTHING,
        sampling_methods=_NOTHING,
        row=_NO_ROW,
    )


_NO_ROW: Mapping[str, Any] = {}


def _bare(score: Score) -> Score:
    value = score.value
    if score.repeats or score.lender:
        return replace(score, answer="", filtered=(), explanation="")
    if value is None or type(value) is int or type(value) is float:
        return _number(score.metric, score.filter, value, score.correct, score.unscored)
    return replace(score, answer="", filtered=(), explanation="")


@lru_cache(maxsize=4096, typed=True)
def _number(
    metric: str, filter_: str, value: float | None, correct: bool | None, unscored: str
) -> Score:
    return Score(
        metric=metric, filter=filter_, value=value, correct=correct, unscored=unscored
    )
