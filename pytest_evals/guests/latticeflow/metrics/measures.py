"""LatticeFlow's metrics: the value read from a sample's scores, its aggregation, and
its name.

Source: LatticeFlow's documentation; choices of our own are in the docstrings. Counts
are summed over samples before a ratio is computed (micro average), so that each ratio
has a delta-method standard error. Values of one row per sample are plain means.

Functions take ``name``, the metric's own name, and what it aggregates. If the names of
values are known only after all samples are scored (the share of each label, the keys
that a snippet returns), ``how.several`` names them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pytest_evals.core.metric import (
    ANYTHING,
    SHARE,
    Estimate,
    Metric,
    Ratio,
    Span,
    Totals,
)
from pytest_evals.errors import EvalsError
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.scorers.metrics import MetricSpec, metric


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerValue:
    """One value of a metric, or several whose names are known only after scoring.

    ``read`` returns the value of a sample's scores; ``None`` leaves the sample out. If
    a postprocessor made several rows of the sample, it is called for each row and the
    tuple of results is aggregated.
    """

    name: str  # LatticeFlow's name; for several values, the metric's key
    read: Callable[[SampleScore], Any]
    how: Metric  # with the final name, once it is known
    scorer: str = ""  # key of its scorer
    metric: str = ""  # key of its metric, unique within the scorer
    is_correctness: bool = False  # 1 is a correct answer, 0 a wrong one
    field: str = ""  # score of which it is the mean, maximum or minimum
    prefix: str = ""  # of its final name; for several values, of their names

    @property
    def later(self) -> bool:
        """Whether names are known only after scoring."""
        return self.how.several is not None


def with_final_names(values: Sequence[ScorerValue]) -> tuple[ScorerValue, ...]:
    """Return the values with a name that is unique in the task: their own if all
    differ, else prefixed with the metric's key, else also with the scorer's key
    (measured, ``latticeflow-core`` 3.17.0). Names that are known only after scoring
    follow the same form; such a value has the name of its metric."""
    prefixes, names = list[str](), list[str]()
    for form in ("", "{metric}_", "{scorer}_{metric}_"):
        keys = [{"scorer": one.scorer, "metric": one.metric} for one in values]
        prefixes = [form.format(**key) for key in keys]
        pairs = zip(prefixes, values, strict=True)
        names = [prefix + one.name for prefix, one in pairs if not one.later]
        if len({*names}) == len(names):
            break
    taken = Counter([*names, *(one.metric for one in values if one.later)])
    return tuple(
        replace(one, prefix=prefix, how=_with_final_name(one, prefix, taken))
        for prefix, one in zip(prefixes, values, strict=True)
    )


def _with_final_name(one: ScorerValue, prefix: str, taken: Counter[str]) -> Metric:
    several = one.how.several
    if several is None:
        return replace(one.how, name=prefix + one.name)

    def prefixed(given: Sequence[Any]) -> Mapping[str, Estimate]:
        return {prefix + key: number for key, number in several(given).items()}

    is_unique = taken[one.metric] == 1
    name = one.metric if is_unique else f"{one.scorer}_{one.metric}"
    return replace(one.how, name=name, several=prefixed)


_CORRECT = frozenset({"all_required_calls_made", "correct", "is_correct"})
"""Scores that mark an answer as correct."""
_LESS_IS_BETTER = frozenset((
    "hallucination", "noise_sensitivity_in_irrelevant", "noise_sensitivity_in_relevant",
    "num_required_calls_not_made", "num_unrequired_calls", "unparsable",
))  # fmt: skip
_MORE_IS_BETTER = frozenset((
    "all_required_calls_made", "bleu_score", "claim_recall", "context_precision",
    "context_utilization", "f1_score", "faithfulness", "is_correct", "precision",
    "recall", "required_calls_coverage",
))  # fmt: skip
"""Scores of the built-in scorers; the direction of others is unknown."""
_ROUNDING = 1e-9  # Standard errors of shares below this are rounding errors
Read = Callable[[SampleScore], Any]
"""Scores of a sample → the value to aggregate; ``None`` for none."""
InvalidMessage = Callable[[Any], str]
"""Returns the error message for a value that is not a number."""


def missing_message(*fields: str) -> str:
    """Return the message for a value that no sample has."""
    named = ", ".join(map(repr, fields))
    return f"no sample has {'a score' if len(fields) == 1 else 'the scores'} {named}"


def _invalid(label: str) -> InvalidMessage:
    return lambda value: f"{label} has the value {value!r:.80}, which is not a number"


_invalid_count = _invalid("a count")


class Column(NamedTuple):
    """What a metric aggregates."""

    read: Read
    missing: str  # message if no sample has a value
    invalid: InvalidMessage = _invalid_count
    higher_is_better: bool | None = None
    field: str = ""  # name of the score, if it is one


def column_of(field: str) -> Column:
    """Return the numbers of a score; ``true`` counts as 1. Other values are kept and
    reported by the aggregation."""

    def read(score: SampleScore) -> Any:
        value = score.get(field)
        number = number_of(value)
        return value if number is None else number

    invalid = _invalid(f"the score {field!r}")
    return Column(read, missing_message(field), invalid, _direction(field), field)


def _measure(
    name: str,
    column: Column,
    estimate: Callable[[Sequence[Any]], Estimate],
    **more: Any,
) -> ScorerValue:
    how = Metric(
        name=name,
        aggregate=estimate,
        number=lambda values: estimate(values).value,
        lacking=column.missing,
        higher_is_better=column.higher_is_better,
        closed=True,
        **more,
    )
    return ScorerValue(name=name, read=column.read, how=how, field=column.field)


def mean_measure(name: str, column: Column, span: Span = ANYTHING) -> ScorerValue:
    """Return the mean over all rows: a plain mean if each sample is one row, else a
    ratio of sums."""
    better = column.higher_is_better
    spec = MetricSpec(name=name, aggregation="mean", higher_is_better=better)
    plain = metric(spec, "none", "generate_until", declared=True)

    def totals(values: Sequence[Any]) -> Totals:
        rows = [_numbers([value], column.invalid) for value in values]
        columns = (list(map(math.fsum, rows)), [float(len(row)) for row in rows])
        return Totals(columns=columns, score=_quotient, is_ratio=True)

    def mean(values: Sequence[Any]) -> Estimate:
        numbers = _numbers(values, column.invalid)
        if len(numbers) != len(values):
            return _estimate(totals(values))
        average = plain.aggregate(numbers)
        assert isinstance(average, Estimate), "a mean is one number"
        return average

    found = _measure(name, column, mean, is_mean=True, totals=totals, span=span)
    return replace(found, is_correctness=column.field in _CORRECT)


def number_measure(
    name: str, column: Column, value: Callable[[Sequence[float]], float]
) -> ScorerValue:
    """Return a function of all values."""

    def estimate(values: Sequence[Any]) -> Estimate:
        return Estimate(float(value(_numbers(values, column.invalid))))

    return _measure(name, column, estimate)


def ratio_measure(
    name: str,
    column: Column,
    score: Callable[[Sequence[float]], float],
    ratio: Ratio | None = None,
) -> ScorerValue:
    """Return a value computed from lists of counts, summed over samples. ``score``:
    sums of the counts → value; ``ratio``: numerator and denominator, if it is a ratio
    to which a row adds at most 1."""

    def totals(values: Sequence[Any]) -> Totals:
        counts = [
            [math.fsum(_numbers(column)) for column in zip(*_rows(value), strict=True)]
            for value in values
        ]
        columns = [list(column) for column in zip(*counts, strict=True)]
        return Totals(columns=columns, score=score, is_ratio=True)

    def estimate(values: Sequence[Any]) -> Estimate:
        return _estimate(totals(values))

    span = ANYTHING if ratio is None else SHARE
    column = column._replace(higher_is_better=True)
    return _measure(name, column, estimate, totals=totals, ratio=ratio, span=span)


def frequencies(field: str, name: str) -> ScorerValue:
    """Return the share of each value of a field: ``label_POLITE``."""

    def read(score: SampleScore) -> str | None:
        value = score.get(field)
        return None if value is None else str(value)

    def several(values: Sequence[Any]) -> dict[str, Estimate]:
        rows = [_rows(value) for value in values]
        sizes = [float(len(labels)) for labels in rows]
        shares = {}
        for label in sorted(set(flatten(values))):
            hits = [float(labels.count(label)) for labels in rows]
            totals = Totals(columns=(hits, sizes), score=_quotient, is_ratio=True)
            shares[f"{field}_{label}"] = _estimate(totals)
        return shares

    return named_values_measure(name, Column(read, missing_message(field)), several)


def named_values_measure(
    name: str,
    column: Column,
    several: Callable[[Sequence[Any]], Mapping[str, Estimate]],
) -> ScorerValue:
    """Return values whose names are known only after scoring."""
    how = Metric(
        name=name,
        aggregate=lambda values: Estimate(math.nan),
        several=several,
        lacking=column.missing,
    )
    return ScorerValue(name=name, read=column.read, how=how)


def _direction(field: str) -> bool | None:
    names = {field, field.partition(".")[0].removeprefix("required_")}
    if names & _MORE_IS_BETTER:
        return True
    return False if names & _LESS_IS_BETTER else None


def _numbers(
    values: Sequence[Any], invalid: InvalidMessage = _invalid_count
) -> list[float]:
    numbers = flatten(values)
    for value in numbers:
        if number_of(value) is None:
            raise EvalsError(invalid(value))
    return numbers


def _quotient(sums: Sequence[float]) -> float:
    above, below = sums
    return above / below if below else math.nan


def _estimate(totals: Totals) -> Estimate:
    value = totals.score([math.fsum(column) for column in totals.columns])
    if len(totals.columns[0]) < 2 or not math.isfinite(value):
        return Estimate(value)
    from pytest_evals.stats.averages import influences, mean_stderr

    stderr = mean_stderr(influences(totals.columns, totals.score).tolist())
    if stderr is None or not math.isfinite(stderr):
        return Estimate(value)
    # Numeric derivatives: without any variance, only rounding errors remain.
    return Estimate(value, 0.0 if stderr < _ROUNDING else stderr, "analytic")


def _rows(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def flatten(values: Iterable[Any]) -> list[Any]:
    """Return the values of all rows of all samples."""
    return [one for value in values for one in _rows(value)]


def number_of(value: Any) -> float | None:
    """Return a number or boolean as a number, ``None`` for anything else."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None
