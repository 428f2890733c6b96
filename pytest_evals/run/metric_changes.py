"""Changes of the metrics of tasks and groups between two runs, with the confidence
intervals of gates, or the reason why it is missing."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pytest_evals.core.comparison import MetricChange
from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.errors import EvalsError
from pytest_evals.gates.estimate.change import paired_change
from pytest_evals.gates.estimate.combinations import combined_change
from pytest_evals.gates.terms import NO_VARIANCE, ChangeEstimate
from pytest_evals.stats.averages import Labels, mean, mean_stderr
from pytest_evals.stats.interval_methods import ExactValue

CONFIDENCE = 0.95
"""Of each confidence limit; both together are a 90% confidence interval."""
_EXACT = 1e-9
_MOST_S = 1.0
"""Longest resampling of a user's function, in seconds of CPU. A gate has no limit."""

Numbers = Mapping[str, Any]
"""Key of a metric → its number in ``results.json``."""
Values = Mapping[str, Mapping[int, Any]]
"""Key of a metric → position of a document in this run's dataset → its value."""
Estimates = Mapping[str, ChangeEstimate | str]
"""Key of a metric → its change, or the reason why it has no confidence interval."""
MEAN = Metric(
    name="mean",
    aggregate=lambda values: Estimate(mean(values), mean_stderr(values)),
    is_mean=True,
)


class _NoIntervalError(Exception):
    """The reason why a change has no confidence interval."""


def paired_estimates(
    numbers: tuple[Numbers, Numbers],
    values: tuple[Values, Values],
    methods: Callable[[str], Iterable[Metric]],
    labels: Callable[[Sequence[int]], Labels],
    *,
    every: Values | None = None,
    is_sample: bool = False,
) -> Estimates:
    """Return the changes of a task's metrics.

    Args:
        numbers: The task's metrics in the baseline and in this run.
        values: Their values for each document.
        methods: Returns the possible definitions of a metric. The first that gives both
            numbers is used.
        every: Values of all documents of this run, if the runs share only some of
            them: then this run's numbers over all of them select the definition.
        is_sample: Whether the baseline's numbers are those of more documents, so that
            only this run's numbers select the definition.
    """
    found: dict[str, ChangeEstimate | str] = {}
    for key in keys_of(*numbers):
        both = [None if is_sample else numbers[0].get(key), numbers[1].get(key)]
        paired = [side.get(key, {}) for side in values]
        how = methods(key)
        if every is not None:
            now = [*every.get(key, {}).values()]
            how = (one for one in how if _gives(one, now, both[1]))
            both = [None, None]
        try:
            found[key] = _estimated(both, paired, how, labels)
        except (EvalsError, ValueError, _NoIntervalError) as error:
            found[key] = str(error).removeprefix("it ").partition("\n")[0]
        except (Exception, SystemExit) as error:  # noqa: BLE001 - user's code
            found[key] = f"{type(error).__name__}: {error}".partition("\n")[0]
    return found


def _estimated(
    numbers: Sequence[Any],
    values: Sequence[Mapping[int, Any]],
    methods: Iterable[Metric],
    labels: Callable[[Sequence[int]], Labels],
) -> ChangeEstimate:
    if not all(values):
        raise _NoIntervalError("no values per document")
    n_single = len(values[0].keys() ^ values[1].keys())
    if n_single:
        raise _NoIntervalError(f"{n_single} scored in one run only")
    at = [*values[1]]
    old, new = ([side[i] for i in at] for side in values)
    clusters = labels(at)
    fault: BaseException = _NoIntervalError("unknown aggregation")
    for how in methods:
        try:
            if _is_slow(how, new):
                raise _NoIntervalError("too slow to resample; use a gate")
            change = paired_change(how, old, new, clusters)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - user's code
            fault = error
            continue
        found = zip((change.before, change.now), numbers, strict=True)
        if all(number is None or _equal(value, number) for value, number in found):
            return change
        fault = _NoIntervalError("unknown aggregation")
    raise fault


def is_mean_of(values: Sequence[Any], number: Any) -> bool:
    """Whether a number is the mean of these values."""
    return bool(values) and _gives(MEAN, values, number)


def _gives(how: Metric, values: Sequence[Any], number: Any) -> bool:
    try:
        if how.is_mean:
            return _equal(mean(values), number)
        if how.number is None or _is_slow(how, values):
            return False
        return _equal(how.number(values), number)
    except (Exception, SystemExit):  # noqa: BLE001 - user's code
        return False


def _is_slow(how: Metric, values: Sequence[Any]) -> bool:
    """Whether resampling calls a function so often that it takes too long."""
    if how.is_mean or how.totals or how.statistic or how.number is None:
        return False
    from pytest_evals.stats.bootstrap_limits import N_RESAMPLES  # late: it needs NumPy

    start = time.thread_time()
    how.number([values[at] for at in range(len(values))])  # as for a resample
    return (time.thread_time() - start) * 2 * N_RESAMPLES > _MOST_S


def group_estimates(
    numbers: tuple[Numbers, Numbers],
    tasks: Sequence[str],
    estimates: Mapping[str, Estimates],
    sizes: Mapping[str, int],
) -> Estimates:
    """Return the changes of a group's metrics: means over its tasks, weighted by their
    documents or equally.

    Args:
        tasks: Its tasks, repeated as often as subgroups contain them.
        sizes: The number of documents of each task, if known.
    """
    found: dict[str, ChangeEstimate | str] = {}
    for key in keys_of(*numbers):
        times = Counter(task for task in tasks if key in estimates.get(task, {}))
        changes: dict[str, ChangeEstimate] = {}
        for task in times:
            one = estimates[task][key]
            if isinstance(one, str):
                found.setdefault(key, f"{task}: {one}")
            else:
                changes[task] = one
        if key not in found:
            both = [side.get(key) for side in numbers]
            found[key] = _weighted(both, changes, times, sizes)
    return found


def _weighted(
    numbers: Sequence[Any],
    changes: Mapping[str, ChangeEstimate],
    times: Mapping[str, int],
    sizes: Mapping[str, int],
) -> ChangeEstimate | str:
    for by_size in (True, False):
        counts = [
            n * (sizes.get(task, changes[task].n) if by_size else 1)
            for task, n in times.items()
        ]
        weights = [Fraction(count, sum(counts)) for count in counts]
        change = combined_change([*times], [*changes.values()], weights)
        if _equal(change.before, numbers[0]) and _equal(change.now, numbers[1]):
            return change
    return "not a mean of its tasks"


def metric_changes(
    name: str,
    numbers: tuple[Numbers, Numbers],
    directions: Mapping[str, bool | None],
    estimates: Estimates,
) -> Iterator[MetricChange]:
    """Yield the changes of the numbers of a task or group.

    Args:
        numbers: Its metrics in the baseline and in this run.
        directions: Name of a metric → whether higher is better.
        estimates: The changes, or the reasons why they have no confidence interval.
    """
    for key in keys_of(*numbers):
        before, now = (as_number(side.get(key)) for side in numbers)
        one = MetricChange(
            task=name,
            key=key,
            before=before,
            now=now,
            higher_is_better=directions.get(key.partition(",")[0]),
        )
        yield _with_interval(one, estimates.get(key, ""))


def _with_interval(one: MetricChange, change: ChangeEstimate | str) -> MetricChange:
    if one.before is None or one.now is None:
        side = "the baseline" if one.before is None else "this run"
        change = f"no number in {side}"
    if isinstance(change, str):
        return replace(one, no_interval=change)
    if isinstance(change.spread, ExactValue):
        why = "every document changes equally" if change.value else NO_VARIANCE
        return replace(one, no_interval=why)
    limits = change.limits(CONFIDENCE)
    if not all(map(math.isfinite, (limits.low, limits.high))):
        return replace(one, no_interval="unbounded interval")
    return replace(
        one,
        low=limits.low,
        high=limits.high,
        unit="percent" if change.unit == "percent" else "plain",
        method=change.method,
    )


def keys_of(*numbers: Numbers) -> list[str]:
    """Return the keys of metrics, without standard errors and other fields."""
    keys = dict.fromkeys(key for side in numbers for key in side)
    return [key for key in keys if "," in key and "_stderr," not in key]


def _equal(value: Fraction | float, expected: Any) -> bool:
    return as_number(expected) is not None and math.isclose(
        value, expected, rel_tol=_EXACT, abs_tol=_EXACT
    )


def as_number(value: Any) -> float | None:
    """Return a value of ``results.json`` as a number; ``None`` if it is not one."""
    return float(value) if isinstance(value, int | float) else None
