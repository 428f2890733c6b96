"""What a scorer says of one document."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Status(Enum):
    """What became of a document. An error is never a wrong answer."""

    SCORED = "scored"
    ERRORED = "errored"
    """It could not be rendered, answered or scored."""
    UNSCORED = "unscored"
    """It was answered, but a judge or a scorer could not say how well."""
    MISSING = "missing"
    """It was not run: deselected, not reached, or lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric's value for one document.

    Args:
        metric: The metric's name.
        filter: The filter pipeline that the responses went through.
        value: A number, or whatever the metric's aggregation takes (a pair of reference
            and prediction, say).
        correct: Whether the answer is right, for metrics that can say so.
        answer: The answer as a person would read it: the chosen choice, or the
            extracted text.
        filtered: What the filter pipeline made of the responses, one entry a request.
        explanation: A judge's words, or how the value came about.
        unscored: Why there is no value.
        repeats: The value of each answer by itself, where the task asks several times
            and a gate wants to know.
        repeat_answers: Each of these answers as a person would read it.
        lender: The metric whose function gave this value, where that function gives
            several, each under a name of its own.
        is_copied: Whether these answers are one text though they were drawn at random:
            copies of one answer, and no evidence.
    """

    metric: str
    filter: str = "none"
    value: Any = None
    correct: bool | None = None
    answer: str = ""
    filtered: tuple[Any, ...] = ()
    explanation: str = ""
    unscored: str = ""
    repeats: tuple[Any, ...] = ()
    repeat_answers: tuple[str, ...] = ()
    lender: str = ""
    is_copied: bool = False

    @property
    def key(self) -> str:
        """Metric and filter as results files name them: ``acc,none``."""
        return f"{self.metric},{self.filter}"
