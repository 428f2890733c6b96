"""Values of a task's metrics: how each is read from a scorer's scores, and its name.

A value that is a mean, or is computed from one value per sample, reads that value from
each sample, so that it has a standard error and can be compared with a baseline. If the
names are known only after all samples are scored (the share of each label, the keys
that a snippet returns), ``how.several`` names the values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.metric import Metric
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore

NOTHING: Any = object()
"""Read result of a sample without a value; the sample is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerValue:
    """One value of a metric, or several whose names are known only after scoring.

    Args:
        scorer: Key of its scorer.
        metric: Key of its metric, unique within the scorer.
        name: LatticeFlow's name of the value; for several values, the metric's key.
        read: Reads the value to aggregate from a sample's scores, as plain Python;
            :data:`NOTHING` leaves the sample out. If a postprocessor made several rows
            of the sample, it is called for each row and the tuple of results is
            aggregated. Raises ``DocumentError`` for a value that cannot be aggregated.
        how: The final name → the metric that aggregates the values.
        is_correctness: Whether a value of 1 means that the answer is correct, and 0
            wrong.
        later: Whether names are known only after scoring.
        field: The score of which it is the mean, maximum or minimum; empty otherwise.
    """

    scorer: str
    metric: str
    name: str
    read: Callable[[SampleScore], Any]
    how: Callable[[str], Metric]
    is_correctness: bool = False
    later: bool = False
    field: str = ""


class FinalName(NamedTuple):
    """The name of a value.

    Args:
        name: Unique in the task; for several values, that of their metric.
        prefix: Prefix of the names of several values.
    """

    name: str
    prefix: str = ""


def final_names(numbers: Sequence[ScorerValue]) -> tuple[FinalName, ...]:
    """Return the final name of each value: its own if all differ, else prefixed with
    the metric's key, else also with the scorer's key (measured, ``latticeflow-core``
    3.17.0). Names that are known only after scoring follow the same form."""
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


_PREFIXES: tuple[Callable[[ScorerValue], str], ...] = (
    lambda one: "",
    lambda one: f"{one.metric}_",
    lambda one: f"{one.scorer}_{one.metric}_",
)
