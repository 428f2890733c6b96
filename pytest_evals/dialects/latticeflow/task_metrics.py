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
from typing import Any, NamedTuple

from pytest_evals.core.metric import Metric
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore

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
        field: The score that it is the mean, the maximum or the minimum of; empty for
            any other number.
    """

    scorer: str
    metric: str
    name: str
    read: Callable[[SampleScore], Any]
    how: Callable[[str], Metric]
    tells_right: bool = False
    later: bool = False
    field: str = ""


class FinalName(NamedTuple):
    """What a number is called.

    Args:
        name: Unique in the task; of several, that of their metric.
        prefix: What stands in front of the names of several.
    """

    name: str
    prefix: str = ""


def final_names(numbers: Sequence[Number]) -> tuple[FinalName, ...]:
    """The final name of each: its own if all differ, else with the metric's key in
    front, else with the scorer's key too (measured, ``latticeflow-core`` 3.17.0). Names
    that only the values tell are not known yet, but keep to the same form."""
    prefix, names = _PREFIXES[0], list[str]()
    for prefix in _PREFIXES:
        names = [prefix(one) + one.name for one in numbers if not one.later]
        if max(Counter(names).values(), default=1) == 1:
            break
    metrics = Counter([*names, *(one.metric for one in numbers if one.later)])
    return tuple(
        FinalName(prefix(one) + one.name)
        if not one.later
        else FinalName(
            one.metric if metrics[one.metric] == 1 else f"{one.scorer}_{one.metric}",
            prefix(one),
        )
        for one in numbers
    )


_PREFIXES: tuple[Callable[[Number], str], ...] = (
    lambda one: "",
    lambda one: f"{one.metric}_",
    lambda one: f"{one.scorer}_{one.metric}_",
)
