"""What one metric says of one document, and the score that this is."""

from __future__ import annotations

from typing import Any, NamedTuple

from pytest_evals.core.score import Score
from pytest_evals.scorers.user_aggregation import Decides
from pytest_evals.scorers.user_code import plain


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
    decides: Decides,
) -> Score:
    """A value as the score of a filter pipeline.

    Args:
        measured: The value.
        filter: Name of the pipeline.
        filtered: What it left of the responses, one a request.
        decides: Whether 1 means right and 0 wrong.
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
