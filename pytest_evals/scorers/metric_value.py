"""The value of a metric for a document, and the score made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_evals.core.record import Score


class Measured(NamedTuple):
    """A metric's value, with what a person would want to see beside it; ``unscored`` is
    why there is none, ``lender`` the listed metric that gave it under another name."""

    metric: str
    value: Any
    answer: str = ""
    explanation: str = ""
    unscored: str = ""
    lender: str = ""


def score_of(
    measured: Measured,
    filter: str,  # noqa: A002 - the word of results files
    filtered: tuple[Any, ...],
    decides: object,
) -> Score:
    """A value as the score of a filter pipeline.

    Args:
        measured: The value.
        filter: Name of the pipeline.
        filtered: What it left of the responses, one a request.
        decides: True if 1 means correct and 0 wrong; ``bool()`` of it is only called
            for these values.
    """
    value = plain(measured.value)
    binary = isinstance(value, (bool, int, float)) and value in (0, 1)
    return Score(
        metric=measured.metric,
        filter=filter,
        value=value,
        correct=value == 1 if binary and decides else None,
        answer=measured.answer,
        filtered=filtered,
        explanation=measured.explanation,
        unscored=measured.unscored,
        lender=measured.lender,
    )


def plain(value: Any) -> Any:
    """The value with scalars of NumPy or torch as Python's own, also inside lists,
    tuples and mappings; arrays stay what they are."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):
        inner = [plain(item) for item in value]
        return tuple(inner) if isinstance(value, tuple) else inner
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    return value
