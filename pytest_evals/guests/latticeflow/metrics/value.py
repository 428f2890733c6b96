"""Values of a task's metrics: how each is read from a scorer's scores, and its name.

A value that is a mean, or is computed from one value per sample, reads that value from
each sample, so that it has a standard error and can be compared with a baseline. If the
names are known only after all samples are scored (the share of each label, the keys
that a snippet returns), ``how.several`` names the values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.guests.latticeflow.prompts.output import SampleScore


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerValue:
    """One value of a metric, or several whose names are known only after scoring.

    ``read`` returns the value of a sample's scores; ``None`` leaves the sample out. If
    a postprocessor made several rows of the sample, it is called for each row and the
    tuple of results is aggregated.
    """

    name: str  # LatticeFlow's name; for several values, the metric's key
    read: Callable[[SampleScore], Any]
    how: Metric
    scorer: str = ""  # key of its scorer
    metric: str = ""  # key of its metric, unique within the scorer
    is_correctness: bool = False  # 1 is a correct answer, 0 a wrong one
    field: str = ""  # score of which it is the mean, maximum or minimum

    @property
    def later(self) -> bool:
        """Whether names are known only after scoring."""
        return self.how.several is not None

    def named(self, final: FinalName) -> Metric:
        """Return the metric with its final name."""
        several = self.how.several
        if several is None or not final.prefix:
            return replace(self.how, name=final.name)

        def prefixed(values: Sequence[Any]) -> Mapping[str, Estimate]:
            return {final.prefix + key: one for key, one in several(values).items()}

        return replace(self.how, name=final.name, several=prefixed)


class FinalName(NamedTuple):
    """A name, unique in the task; for several values, that of their metric and the
    prefix of their names."""

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
    taken = Counter([*names, *(one.metric for one in numbers if one.later)])

    def final(one: ScorerValue) -> FinalName:
        if not one.later:
            return FinalName(prefix(one) + one.name)
        is_unique = taken[one.metric] == 1
        name = one.metric if is_unique else f"{one.scorer}_{one.metric}"
        return FinalName(name, prefix(one))

    return tuple(map(final, numbers))


_PREFIXES: tuple[Callable[[ScorerValue], str], ...] = (
    lambda one: "",
    lambda one: f"{one.metric}_",
    lambda one: f"{one.scorer}_{one.metric}_",
)
