"""LatticeFlow's metrics: what is read of a sample's scores, and how samples add up.

Facts: LatticeFlow's documentation; where it is silent, the docstrings have the choice.
Counts add up over samples before a ratio is made of them (micro), so that each ratio
has a standard error by the delta method. Numbers of one row a sample are plain means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
from pytest_evals.dialects.latticeflow.metrics.rows import (
    Values,
    flat,
    number_of,
    rows_of,
)
from pytest_evals.errors import EvalsError, did_you_mean
from pytest_evals.scorers.metrics import MetricSpec, metric

_LESS_IS_BETTER = frozenset(
    {
        "hallucination",
        "noise_sensitivity_in_irrelevant",
        "noise_sensitivity_in_relevant",
        "num_required_calls_not_made",
        "num_unrequired_calls",
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
"""Scores of the built-in scorers; nobody knows which way others are better."""


Odd = Callable[[Any], str]
"""A value that is no number to what is said of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number of a scorer, or several whose names only the values tell.

    Args:
        name: What it is called if nothing else has that name.
        read: The values of a row to what is added up; ``None`` for nothing.
        how: Its final name to the metric that adds it up.
        later: Whether it is several, whose names the values tell.
    """

    name: str
    read: Callable[[Values], Any]
    how: Callable[[str], Metric]
    later: bool = False


def lacking(*fields: str) -> str:
    """What is said where no sample has a value."""
    named = ", ".join(map(repr, fields))
    return f"no sample has {'a score' if len(fields) == 1 else 'the scores'} {named}"


def mean_measure(
    name: str,
    read: Callable[[Values], Any],
    lack: str,
    higher_is_better: bool | None = None,
    odd: Odd | None = None,
    span: Span = ANYTHING,
) -> Measure:
    """A mean over all rows.

    Args:
        name: Of the number.
        read: The values of a row to a number.
        lack: What is said where there are none.
        higher_is_better: Its direction.
        odd: What is said of a value that is no number.
        span: The values that the number can have.
    """

    def how(name: str) -> Metric:
        told = odd or _odd_count
        spec = MetricSpec(
            name=name, aggregation="mean", higher_is_better=higher_is_better
        )
        plain = metric(spec, "none", "generate_until", declared=True)
        return Metric(
            name=name,
            aggregate=partial(_mean, plain.aggregate, told),
            higher_is_better=higher_is_better,
            is_mean=True,
            totals=partial(_mean_totals, told),
            number=lambda values: _mean(plain.aggregate, told, values).value,
            lacking=lack,
            span=span,
            closed=True,
        )

    return Measure(name=name, read=read, how=how)


def mean_of(field: str, name: str, span: Span = ANYTHING) -> Measure:
    """The mean of a field; true counts as 1."""
    better, odd = _direction(field), _odd_score(field)
    return mean_measure(name, _reader(field), lacking(field), better, odd, span)


def weighted_of(field: str, name: str, weights: Mapping[str, float]) -> Measure:
    """The mean weight of a label; one without a weight is a fault of the number."""

    def read(values: Values) -> Any:
        label = values.get(field)
        if label is None:
            return None
        return weights.get(str(label), str(label))

    def odd(label: Any) -> str:
        known = did_you_mean(label, list(weights)) or f"; weights: {', '.join(weights)}"
        return f"the label {label!r} of {field!r} has no weight{known}"

    return mean_measure(name, read, lacking(field), odd=odd)


def extreme_of(field: str, name: str, which: Callable[..., float]) -> Measure:
    """The smallest or the largest value of a field."""

    def value(values: Sequence[Any]) -> float:
        numbers = _numbers(values, _odd_score(field))
        return math.nan if any(map(math.isnan, numbers)) else float(which(numbers))

    return _alone(name, _reader(field), value, lacking(field), _direction(field))


def spread_of(field: str, name: str) -> Measure:
    """The sample standard deviation of a field (n - 1, as in the documentation's worked
    example); 0 of one value."""

    def value(values: Sequence[Any]) -> float:
        numbers = _numbers(values, _odd_score(field))
        n = len(numbers)
        if n < 2:
            return 0.0
        centre = math.fsum(numbers) / n
        return math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / (n - 1))

    return _alone(name, _reader(field), value, lacking(field))


def sum_of(name: str, read: Callable[[Values], Any], lack: str) -> Measure:
    """A count over all samples."""
    return _alone(name, read, lambda values: float(sum(_numbers(values))), lack)


def ratio_of(
    name: str,
    read: Callable[[Values], list[Any] | None],
    score: Callable[[Sequence[float]], float],
    lack: str,
    ratio: Ratio | None = None,
) -> Measure:
    """A number of counts, which add up over samples.

    Args:
        name: Of the number.
        read: The values of a row to its counts.
        score: The sums of the counts to the number.
        lack: What is said where no sample has counts.
        ratio: How it is one count over another, of which a row adds 1 to one at most.
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
            lacking=lack,
            span=ANYTHING if ratio is None else SHARE,
            closed=True,
        )

    return Measure(name=name, read=read, how=how)


def frequency_of(field: str, name: str) -> Measure:
    """The share of each value of a field: ``label_POLITE``."""

    def read(values: Values) -> str | None:
        value = values.get(field)
        return None if value is None else str(value)

    def several(values: Sequence[Any]) -> dict[str, Estimate]:
        found = {}
        rows = [rows_of(value) for value in values]
        sizes = [float(len(labels)) for labels in rows]
        for label in sorted(set(flat(values))):
            hits = [float(labels.count(label)) for labels in rows]
            totals = Totals(columns=(hits, sizes), score=_over, is_ratio=True)
            found[f"{field}_{label}"] = _estimate(totals)
        return found

    return several_of(name, read, several, lacking(field))


def several_of(
    name: str,
    read: Callable[[Values], Any],
    several: Callable[[Sequence[Any]], Mapping[str, Estimate]],
    lack: str,
) -> Measure:
    """Numbers whose names the values tell."""

    def how(name: str) -> Metric:
        return Metric(
            name=name,
            aggregate=lambda values: Estimate(math.nan),
            several=several,
            lacking=lack,
        )

    return Measure(name=name, read=read, how=how, later=True)


def _alone(
    name: str,
    read: Callable[[Values], Any],
    value: Callable[[Sequence[Any]], float],
    lack: str,
    higher_is_better: bool | None = None,
) -> Measure:
    """A number without a standard error."""

    def how(name: str) -> Metric:
        return Metric(
            name=name,
            aggregate=lambda values: Estimate(value(values)),
            higher_is_better=higher_is_better,
            number=value,
            lacking=lack,
            closed=True,
        )

    return Measure(name=name, read=read, how=how)


def _reader(field: str) -> Callable[[Values], Any]:
    """A field as a number; what is none stays, so that adding it up can tell."""

    def read(values: Values) -> Any:
        value = values.get(field)
        number = number_of(value)
        return value if number is None else number

    return read


def _direction(field: str) -> bool | None:
    """Whether more of a score is better; ``None`` if nobody can say."""
    bare = field.partition(".")[0].removeprefix("required_")
    if {field, bare} & _MORE_IS_BETTER:
        return True
    return False if {field, bare} & _LESS_IS_BETTER else None


def _odd_score(field: str) -> Odd:
    return lambda value: _odd(f"the score {field!r}", value)


def _odd(what: str, value: Any) -> str:
    return f"{what} is {value!r:.80} somewhere, which is no number"


def _odd_count(value: Any) -> str:
    return _odd("a count", value)


def _numbers(values: Sequence[Any], odd: Odd = _odd_count) -> list[float]:
    """All rows as numbers.

    Raises:
        EvalsError: One is none.
    """
    found = flat(values)
    for value in found:
        if number_of(value) is None:
            raise EvalsError(odd(value))
    return found


def _mean(
    plain: Callable[[Sequence[Any]], Estimate | Mapping[str, Estimate]],
    odd: Odd,
    values: Sequence[Any],
) -> Estimate:
    """A plain mean where each sample is one row, else a ratio of sums."""
    numbers = _numbers(values, odd)
    if len(numbers) != len(values):
        return _estimate(_mean_totals(odd, values))
    found = plain(numbers)
    assert isinstance(found, Estimate), "a mean is one number"
    return found


def _mean_totals(odd: Odd, values: Sequence[Any]) -> Totals:
    rows = [_numbers([value], odd) for value in values]
    sums = [math.fsum(row) for row in rows]
    sizes = [float(len(row)) for row in rows]
    return Totals(columns=(sums, sizes), score=_over, is_ratio=True)


def _over(sums: Sequence[float]) -> float:
    above, below = sums
    return above / below if below else math.nan


def _estimate(totals: Totals) -> Estimate:
    """A number of sums with its standard error, where there is one."""
    value = totals.score([math.fsum(column) for column in totals.columns])
    if len(totals.columns[0]) < 2 or not math.isfinite(value):
        return Estimate(value)
    from pytest_evals.stats.averages import mean_stderr
    from pytest_evals.stats.influence import influences

    stderr = mean_stderr(influences(totals.columns, totals.score).tolist())
    if stderr is None or not math.isfinite(stderr):
        return Estimate(value)
    # Slopes are taken by differences: what is left of no noise at all is rounding.
    return Estimate(value, 0.0 if stderr < _ROUNDING else stderr, "analytic")


_ROUNDING = 1e-9
"""Below this, the standard error of a share is none."""
