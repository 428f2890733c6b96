"""Changes of the metrics of tasks and groups between two runs, with confidence
intervals from the documents of both. The methods are those of gates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.comparison import MetricChange
from pytest_evals.stats.averages import mean, mean_stderr
from pytest_evals.stats.interval_methods import IntervalEstimate, NormalEstimate
from pytest_evals.stats.paired_proportions import PairedProportions
from pytest_evals.stats.weighted_sum import WeightedTerm, weighted_sum

Values = Mapping[str, Mapping[Any, Any]]
"""Key of a metric → document → its value."""
CONFIDENCE = 0.95
"""Of each confidence limit; both together are a 90% confidence interval."""
_EXACT = 1e-9


class MetricEstimate(NamedTuple):
    """The change of a metric.

    Args:
        change: With its uncertainty.
        n: Number of documents in both runs.
    """

    change: IntervalEstimate
    n: int


Estimates = Mapping[str, MetricEstimate]
"""Key of a metric → its change."""


def paired_estimates(
    before: Mapping[str, Any], now: Mapping[str, Any], old: Values, new: Values
) -> dict[str, MetricEstimate]:
    """Return the changes of those metrics of a task that are means over the same
    documents in both runs."""
    found = {}
    for key, values in new.items():
        was = old.get(key, {})
        pairs = [(was[i], value) for i, value in values.items() if i in was]
        if not pairs or not all(_number(x) is not None for pair in pairs for x in pair):
            continue
        means = [mean([float(pair[i]) for pair in pairs]) for i in (0, 1)]
        known = (_number(before.get(key)), _number(now.get(key)))
        estimate = _paired(pairs)
        if estimate and all(map(_equal, means, known)):
            found[key] = MetricEstimate(estimate, len(pairs))
    return found


def _paired(pairs: Sequence[tuple[Any, Any]]) -> IntervalEstimate | None:
    moved = [float(now) - float(before) for before, now in pairs]
    if all(value in (0, 1) for pair in pairs for value in pair):
        return PairedProportions(moved.count(1.0), moved.count(-1.0), len(moved))
    stderr = mean_stderr(moved)
    return NormalEstimate(mean(moved), stderr, len(moved) - 1) if stderr else None


def group_estimates(
    before: Mapping[str, Any], now: Mapping[str, Any], members: Sequence[Estimates]
) -> dict[str, MetricEstimate]:
    """Return the changes of those metrics of a group that are means over its tasks,
    weighted by their documents or equally.

    Args:
        before: The numbers of the group in the baseline, by key.
    """
    found: dict[str, MetricEstimate] = {}
    for key in now:
        was, is_ = _number(before.get(key)), _number(now.get(key))
        ones = [member[key] for member in members if key in member]
        if was is None or is_ is None or not ones:
            continue
        n = sum(one.n for one in ones)
        for weights in ([one.n / n for one in ones], [1 / len(ones)] * len(ones)):
            pairs = zip(ones, weights, strict=True)
            terms = [WeightedTerm(one.change, weight, one.n) for one, weight in pairs]
            pooled = weighted_sum(terms)
            if _equal(pooled.value, is_ - was):
                found.setdefault(key, MetricEstimate(pooled, n))
    return found


def metric_changes(
    name: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    directions: Mapping[str, bool | None],
    estimates: Estimates,
) -> Iterator[MetricChange]:
    """Yield the changes of the numbers of a task or group.

    Args:
        name: The task or group.
        before: Its numbers in the baseline, by key.
        estimates: The changes with a known uncertainty.
    """
    for key in dict.fromkeys([*before, *now]):
        metric, comma, _ = key.partition(",")
        if not comma or metric.endswith("_stderr"):
            continue
        limits = None
        if key in estimates:
            limits = estimates[key].change.interval(CONFIDENCE)
        yield MetricChange(
            task=name,
            key=key,
            before=_number(before.get(key)),
            now=_number(now.get(key)),
            higher_is_better=directions.get(metric),
            low=limits.low if limits else None,
            high=limits.high if limits else None,
        )


def _equal(value: float, expected: float | None) -> bool:
    return expected is not None and math.isclose(
        value, expected, rel_tol=_EXACT, abs_tol=_EXACT
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
