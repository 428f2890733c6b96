"""The numbers of a task: what each reads of a scorer's scores, and what it is called.

A number that is the mean of something, or is computed from one value a sample, reads
that value of each sample, so that it has a standard error and can be held against a
baseline. One whose names are known only when all samples are scored (the share of each
label, what a snippet returns) reads whatever it needs, and its ``how.several`` names
its numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.metric import Metric
from pytest_evals.prompts.latticeflow.scores import SampleScore

__all__ = ["NOTHING", "Number", "flat_names"]

NOTHING: Any = object()
"""What a number reads of a sample that has nothing for it: the sample is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number, or several whose names are known only later.

    Args:
        scorer: Key of its scorer.
        metric: Key of its metric, unique within the scorer.
        name: As upstream calls the value; of several numbers, the metric's key.
        read: A sample's scores → what is added up, plain Python; :data:`NOTHING` to
            leave the sample out. Where a postprocessor has made rows of the sample, it
            is asked of each, and what it gives is added up as a tuple. Raises
            ``DocumentError`` for a value that cannot be added up.
        how: The number's final name → what adds it up.
        tells_right: Whether a value of 1 means that the answer is right, and 0 that it
            is wrong.
    """

    scorer: str
    metric: str
    name: str
    read: Callable[[SampleScore], Any]
    how: Callable[[str], Metric]
    tells_right: bool = False


def flat_names(numbers: Sequence[Number]) -> tuple[str, ...]:
    """The final name of each: its own if all differ, else with the metric's key in
    front, else with the scorer's key too (measured, ``latticeflow-core`` 3.17.0)."""
    forms: tuple[Callable[[Number], str], ...] = (
        lambda one: one.name,
        lambda one: f"{one.metric}_{one.name}",
        lambda one: f"{one.scorer}_{one.metric}_{one.name}",
    )
    names: tuple[str, ...] = ()
    for form in forms:
        names = tuple(map(form, numbers))
        if max(Counter(names).values(), default=1) == 1:
            break
    return names
