"""LatticeFlow's metrics: the value read from a sample's scores, and its aggregation.

Source: LatticeFlow's documentation; choices of our own are in the docstrings. Counts
are summed over samples before a ratio is computed (micro average), so that each ratio
has a delta-method standard error. Values of one row per sample are plain means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_evals.core.metric import (
    ANYTHING,
    SHARE,
    Estimate,
    Metric,
    Ratio,
    Span,
    Totals,
)
from pytest_evals.errors import EvalsError, suggestion
from pytest_evals.scorers.metrics import MetricSpec, metric

_LESS_IS_BETTER = frozenset(
    {
        "hallucination",
        "noise_sensitivity_in_irrelevant",
        "noise_sensitivity_in_relevant",
        "num_required_calls_not_made",
        "num_unrequired_calls",
        "unparsable",
    }
)
_MORE_IS_BETTER = frozenset(
    {
        "all_required_calls_made",
        "bleu_score",
        "claim_recall",
        "context_precision",
        "context_utilization",
        "f1_score",
        "faithfulness",
        "is_correct",
        "precision",
        "recall",
        "required_calls_coverage",
    }
)
"""Scores of the built-in scorers; the direction of others is unknown."""


InvalidMessage = Callable[[Any], str]
"""Returns the error message for a value that is not a number."""
Values = Mapping[str, Any]
"""Name → value of one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One value of a metric, or several whose names are known only after scoring.

    Args:
        name: Its name, if unique.
        read: Values of a row → the value to aggregate; ``None`` for none.
        how: Final name → the metric that aggregates it.
        later: Whether it has several values, whose names are known only after scoring.
    """

    name: str
    read: Callable[[Values], Any]
    how: Callable[[str], Metric]
    later: bool = False


def missing_message(*fields: str) -> str:
    """Return the message for a value that no sample has."""
    named = ", ".join(map(repr, fields))
    return f"no sample has {'a score' if len(fields) == 1 else 'the scores'} {named}"


def mean_measure(
    name: str,
    read: Callable[[Values], Any],
    missing: str,
    higher_is_better: bool | None = None,
    invalid_message: InvalidMessage | None = None,
    span: Span = ANYTHING,
) -> Measure:
    """Return the mean over all rows.

    Args:
        read: Values of a row → number.
        missing: Message if no row has one.
    """

    def how(name: str) -> Metric:
        message = invalid_message or _invalid_count
        spec = MetricSpec(
            name=name, aggregation="mean", higher_is_better=higher_is_better
        )
        plain = metric(spec, "none", "generate_until", declared=True)
        return Metric(
            name=name,
            aggregate=partial(_mean, plain.aggregate, message),
            higher_is_better=higher_is_better,
            is_mean=True,
            totals=partial(_mean_totals, message),
            number=lambda values: _mean(plain.aggregate, message, values).value,
            lacking=missing,
            span=span,
            closed=True,
        )

    return Measure(name=name, read=read, how=how)


def mean_field(field: str, name: str, span: Span = ANYTHING) -> Measure:
    """Return the mean of a field; ``true`` counts as 1."""
    better, invalid_message = _direction(field), _invalid_score(field)
    return mean_measure(
        name, _reader(field), missing_message(field), better, invalid_message, span
    )


def weighted_label(field: str, name: str, weights: Mapping[str, float]) -> Measure:
    """Return the mean weight of a label; a label without a weight is an error."""

    def read(values: Values) -> Any:
        label = values.get(field)
        if label is None:
            return None
        return weights.get(str(label), str(label))

    def invalid_message(label: Any) -> str:
        known = suggestion(label, list(weights))
        return f"the label {label!r} of {field!r} has no weight{known}"

    return mean_measure(
        name, read, missing_message(field), invalid_message=invalid_message
    )


def extreme(field: str, name: str, which: Callable[..., float]) -> Measure:
    """Return the smallest or the largest value of a field."""

    def value(values: Sequence[Any]) -> float:
        numbers = _numbers(values, _invalid_score(field))
        return math.nan if any(map(math.isnan, numbers)) else float(which(numbers))

    return _without_stderr(
        name, _reader(field), value, missing_message(field), _direction(field)
    )


def standard_deviation(field: str, name: str) -> Measure:
    """Return the sample standard deviation of a field (n - 1, as in the documentation's
    example); 0 for a single value."""

    def value(values: Sequence[Any]) -> float:
        numbers = _numbers(values, _invalid_score(field))
        n = len(numbers)
        if n < 2:
            return 0.0
        centre = math.fsum(numbers) / n
        return math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / (n - 1))

    return _without_stderr(name, _reader(field), value, missing_message(field))


def sum_measure(name: str, read: Callable[[Values], Any], missing: str) -> Measure:
    """Return a sum over all samples."""
    return _without_stderr(
        name, read, lambda values: float(sum(_numbers(values))), missing
    )


def ratio_measure(
    name: str,
    read: Callable[[Values], list[Any] | None],
    score: Callable[[Sequence[float]], float],
    missing: str,
    ratio: Ratio | None = None,
) -> Measure:
    """Return a value computed from counts that are summed over samples.

    Args:
        read: Values of a row → counts.
        score: Sums of the counts → value.
        missing: Message if no sample has counts.
        ratio: Numerator and denominator, if it is a ratio to which a row adds at most
            1.
    """

    def totals(values: Sequence[Any]) -> Totals:
        counts = [
            [
                math.fsum(_numbers(column))
                for column in zip(*rows_of(value), strict=True)
            ]
            for value in values
        ]
        columns = [list(column) for column in zip(*counts, strict=True)]
        return Totals(columns=columns, score=score, is_ratio=True)

    def how(name: str) -> Metric:
        return Metric(
            name=name,
            aggregate=lambda values: _estimate(totals(values)),
            higher_is_better=True,
            totals=totals,
            ratio=ratio,
            number=lambda values: _estimate(totals(values)).value,
            lacking=missing,
            span=ANYTHING if ratio is None else SHARE,
            closed=True,
        )

    return Measure(name=name, read=read, how=how)


def frequencies(field: str, name: str) -> Measure:
    """Return the share of each value of a field: ``label_POLITE``."""

    def read(values: Values) -> str | None:
        value = values.get(field)
        return None if value is None else str(value)

    def several(values: Sequence[Any]) -> dict[str, Estimate]:
        results = {}
        rows = [rows_of(value) for value in values]
        sizes = [float(len(labels)) for labels in rows]
        for label in sorted(set(flatten(values))):
            hits = [float(labels.count(label)) for labels in rows]
            totals = Totals(columns=(hits, sizes), score=_quotient, is_ratio=True)
            results[f"{field}_{label}"] = _estimate(totals)
        return results

    return named_values_measure(name, read, several, missing_message(field))


def named_values_measure(
    name: str,
    read: Callable[[Values], Any],
    several: Callable[[Sequence[Any]], Mapping[str, Estimate]],
    missing: str,
) -> Measure:
    """Return values whose names are known only after scoring."""

    def how(name: str) -> Metric:
        return Metric(
            name=name,
            aggregate=lambda values: Estimate(math.nan),
            several=several,
            lacking=missing,
        )

    return Measure(name=name, read=read, how=how, later=True)


def _without_stderr(
    name: str,
    read: Callable[[Values], Any],
    value: Callable[[Sequence[Any]], float],
    missing: str,
    higher_is_better: bool | None = None,
) -> Measure:
    """Return a value without a standard error."""

    def how(name: str) -> Metric:
        return Metric(
            name=name,
            aggregate=lambda values: Estimate(value(values)),
            higher_is_better=higher_is_better,
            number=value,
            lacking=missing,
            closed=True,
        )

    return Measure(name=name, read=read, how=how)


def _reader(field: str) -> Callable[[Values], Any]:
    """Return a function that reads a field as a number. Other values are kept and
    reported by the aggregation."""

    def read(values: Values) -> Any:
        value = values.get(field)
        number = number_of(value)
        return value if number is None else number

    return read


def _direction(field: str) -> bool | None:
    """Return whether higher is better for a score; ``None`` if unknown."""
    bare = field.partition(".")[0].removeprefix("required_")
    if {field, bare} & _MORE_IS_BETTER:
        return True
    return False if {field, bare} & _LESS_IS_BETTER else None


def _invalid_score(field: str) -> InvalidMessage:
    return lambda value: _invalid(f"the score {field!r}", value)


def _invalid(what: str, value: Any) -> str:
    return f"{what} has the value {value!r:.80}, which is not a number"


def _invalid_count(value: Any) -> str:
    return _invalid("a count", value)


def _numbers(
    values: Sequence[Any], invalid_message: InvalidMessage = _invalid_count
) -> list[float]:
    """Return all rows as numbers."""
    results = flatten(values)
    for value in results:
        if number_of(value) is None:
            raise EvalsError(invalid_message(value))
    return results


def _mean(
    plain: Callable[[Sequence[Any]], Estimate | Mapping[str, Estimate]],
    invalid_message: InvalidMessage,
    values: Sequence[Any],
) -> Estimate:
    """Return a plain mean if each sample is one row, else a ratio of sums."""
    numbers = _numbers(values, invalid_message)
    if len(numbers) != len(values):
        return _estimate(_mean_totals(invalid_message, values))
    results = plain(numbers)
    assert isinstance(results, Estimate), "a mean is one number"
    return results


def _mean_totals(invalid_message: InvalidMessage, values: Sequence[Any]) -> Totals:
    rows = [_numbers([value], invalid_message) for value in values]
    sums = [math.fsum(row) for row in rows]
    sizes = [float(len(row)) for row in rows]
    return Totals(columns=(sums, sizes), score=_quotient, is_ratio=True)


def _quotient(sums: Sequence[float]) -> float:
    above, below = sums
    return above / below if below else math.nan


def _estimate(totals: Totals) -> Estimate:
    """Return the value of sums with its standard error, if it has one."""
    value = totals.score([math.fsum(column) for column in totals.columns])
    if len(totals.columns[0]) < 2 or not math.isfinite(value):
        return Estimate(value)
    from pytest_evals.stats.averages import mean_stderr
    from pytest_evals.stats.influence import influences

    stderr = mean_stderr(influences(totals.columns, totals.score).tolist())
    if stderr is None or not math.isfinite(stderr):
        return Estimate(value)
    # Numeric derivatives: without any variance, only rounding errors remain.
    return Estimate(value, 0.0 if stderr < _ROUNDING else stderr, "analytic")


_ROUNDING = 1e-9
"""Standard errors of shares below this are rounding errors."""


def rows_of(value: Any) -> tuple[Any, ...]:
    """Return the values of a sample's rows."""
    return value if isinstance(value, tuple) else (value,)


def flatten(values: Iterable[Any]) -> list[Any]:
    """Return the values of all rows of all samples."""
    return [one for value in values for one in rows_of(value)]


def number_of(value: Any) -> float | None:
    """Return a number or boolean as a number, ``None`` for anything else."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None
