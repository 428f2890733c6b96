"""Aggregations: from the values of all documents to one number and its standard error.

The names, the formulas and the kind of standard error are lm-eval's (0.4.13,
``lm_eval.api.metrics``): analytic for the mean, the seeded bootstrap for some, none for
the rest. Values come in document order, which decides the bootstrap's draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.metric import Estimate
from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.user_code import UserCode, plain
from pytest_evals.stats import agreement, averages, bootstrap

__all__ = ["AGGREGATIONS", "Aggregation", "estimate", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """How values become a number.

    Args:
        name: Its name, for messages.
        value: All values to the number.
        stderr: All values to the standard error by a formula.
        statistic: All values to what :func:`bootstrap.bootstrap_stderr` resamples.
    """

    name: str
    value: Callable[[Sequence[Any]], float]
    stderr: Callable[[Sequence[Any]], float | None] | None = None
    statistic: Callable[[Sequence[Any]], Callable[[Any], Any]] | None = None


def estimate(
    aggregation: Aggregation,
    metric: str,
    iterations: int,
    values: Sequence[Any],
) -> Estimate:
    """The number and its standard error; that is ``None`` where lm-eval says ``N/A``,
    for a single document, and where it is not finite.

    Args:
        aggregation: How.
        metric: The metric's name, for messages.
        iterations: Replicates of the bootstrap; with 0 there is no standard error at
            all, as in lm-eval.
        values: One a document, in document order, not empty.

    Raises:
        EvalsError: The values are not what the aggregation takes.
    """
    with UserCode(f"aggregation {aggregation.name!r} of {metric!r}", EvalsError):
        value = aggregation.value(values)
        stderr, method = _stderr(aggregation, values, iterations)
    if stderr is None or not math.isfinite(stderr):
        return Estimate(value)
    return Estimate(value, stderr, method)


def _stderr(
    aggregation: Aggregation, values: Sequence[Any], iterations: int
) -> tuple[float | None, str]:
    if iterations <= 0 or len(values) < 2:
        return None, ""
    if aggregation.stderr is not None:
        return aggregation.stderr(values), "analytic"
    if aggregation.statistic is not None:
        statistic = aggregation.statistic(values)
        n = len(values)
        return bootstrap.bootstrap_stderr(n, statistic, iterations), "bootstrap"
    return None, ""


def own(function: Callable[[Any], Any]) -> Aggregation:
    """A task's own aggregation: a list of values to a number."""
    name = getattr(function, "__name__", type(function).__name__)

    def value(values: Sequence[Any]) -> float:
        number = plain(function(list(values)))
        if not isinstance(number, (int, float)):
            raise EvalsError(f"it must return a number, not {number!r}")
        return float(number)

    return Aggregation(name=name, value=value)


def _numbers(values: Sequence[Any]) -> Sequence[float]:
    for position, value in enumerate(values):
        if not isinstance(value, (int, float)):
            raise EvalsError(
                f"it adds up numbers, and value {position} is {value!r}; "
                "name an aggregation that takes such values"
            )
    return values


def _pairs(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """First and second parts of the values."""
    for position, value in enumerate(values):
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise EvalsError(f"it takes pairs, and value {position} is {value!r}")
    return [value[0] for value in values], [value[1] for value in values]


def _labels(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    golds, predictions = _pairs(values)
    for position, pair in enumerate(zip(golds, predictions, strict=True)):
        if any(isinstance(label, (list, dict, set)) for label in pair):
            raise EvalsError(
                f"it takes pairs of labels, and value {position} is {pair!r}"
            )
    return golds, predictions


def _exp(exponent: float) -> float:
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf


def _weighted(values: Sequence[Any]) -> float:
    return averages.weighted_mean(*_pairs(values))


def _brier(values: Sequence[Any]) -> float:
    golds, probabilities = _pairs(values)
    for position, (gold, row) in enumerate(zip(golds, probabilities, strict=True)):
        if not isinstance(gold, int) or not -len(row) <= gold < len(row):
            raise EvalsError(
                f"the right answer of value {position} is {gold!r}, "
                f"which is none of its {len(row)} choices"
            )
    return agreement.brier_score(golds, probabilities)


_TABLE = (
    Aggregation(
        name="mean",
        value=lambda values: averages.mean(_numbers(values)),
        stderr=averages.mean_stderr,
    ),
    Aggregation(
        name="median",
        value=lambda values: averages.median(_numbers(values)),
        statistic=bootstrap.resampled_median,
    ),
    Aggregation(
        name="nanmean",
        value=lambda values: averages.nanmean(_numbers(values)),
        statistic=bootstrap.resampled_nanmean,
    ),
    Aggregation(
        name="perplexity",
        value=lambda values: _exp(-averages.mean(_numbers(values))),
        statistic=bootstrap.resampled_perplexity,
    ),
    Aggregation(
        name="weighted_perplexity", value=lambda values: _exp(-_weighted(values))
    ),
    Aggregation(
        name="bits_per_byte", value=lambda values: -_weighted(values) / math.log(2)
    ),
    Aggregation(
        name="f1",
        value=lambda values: agreement.f1_score(*_labels(values)),
        statistic=lambda values: bootstrap.resampled_f1(*_labels(values)),
    ),
    Aggregation(
        name="matthews_corrcoef",
        value=lambda values: agreement.matthews_corrcoef(*_labels(values)),
        statistic=lambda values: bootstrap.resampled_matthews(*_labels(values)),
    ),
    Aggregation(name="brier_score", value=_brier),
    # lm-eval's constant for "predict only": the number means nothing.
    Aggregation(name="bypass", value=lambda values: 999.0),
)

AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation", {entry.name: entry for entry in _TABLE}
)
"""Name → aggregation, as ``aggregation:`` of a task file gives it."""
