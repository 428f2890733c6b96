"""LatticeFlow's metrics: the value read from a sample's scores, its aggregation, and
its name.

Source: LatticeFlow's documentation; choices of our own are in the docstrings. Counts
are summed over samples before a ratio is computed (micro average), so that each ratio
has a delta-method standard error. Values of one row per sample are plain means.

Functions take ``name``, the metric's own name, and ``missing``, the message if no
sample has a value. If the names of values are known only after all samples are scored
(the share of each label, the keys that a snippet returns), ``how.several`` names them.
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
from pytest_evals.errors import EvalsError, suggestion
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
_ROUNDING = 1e-9
"""Standard errors of shares below this are rounding errors."""
Read = Callable[[SampleScore], Any]
"""Scores of a sample → the value to aggregate; ``None`` for none."""
InvalidMessage = Callable[[Any], str]
"""Returns the error message for a value that is not a number."""


def missing_message(*fields: str) -> str:
    """Return the message for a value that no sample has."""
    named = ", ".join(map(repr, fields))
    return f"no sample has {'a score' if len(fields) == 1 else 'the scores'} {named}"


def _invalid(what: str) -> InvalidMessage:
    return lambda value: f"{what} has the value {value!r:.80}, which is not a number"


_invalid_count = _invalid("a count")


def mean_measure(
    name: str,
    read: Read,
    missing: str,
    higher_is_better: bool | None = None,
    invalid: InvalidMessage = _invalid_count,
    span: Span = ANYTHING,
) -> ScorerValue:
    """Return the mean over all rows: a plain mean if each sample is one row, else a
    ratio of sums."""
    spec = MetricSpec(name=name, aggregation="mean", higher_is_better=higher_is_better)
    plain = metric(spec, "none", "generate_until", declared=True)

    def totals(values: Sequence[Any]) -> Totals:
        rows = [_numbers([value], invalid) for value in values]
        columns = (list(map(math.fsum, rows)), [float(len(row)) for row in rows])
        return Totals(columns=columns, score=_quotient, is_ratio=True)

    def mean(values: Sequence[Any]) -> Estimate:
        numbers = _numbers(values, invalid)
        if len(numbers) != len(values):
            return _estimate(totals(values))
        found = plain.aggregate(numbers)
        assert isinstance(found, Estimate), "a mean is one number"
        return found

    how = Metric(
        name=name,
        aggregate=mean,
        higher_is_better=higher_is_better,
        is_mean=True,
        totals=totals,
        number=lambda values: mean(values).value,
        lacking=missing,
        span=span,
        closed=True,
    )
    return ScorerValue(name=name, read=read, how=how)


def mean_field(field: str, name: str, span: Span = ANYTHING) -> ScorerValue:
    """Return the mean of a field; ``true`` counts as 1."""
    better, invalid = _direction(field), _invalid(f"the score {field!r}")
    missing = missing_message(field)
    return mean_measure(name, _reader(field), missing, better, invalid, span)


def weighted_label(field: str, name: str, weights: Mapping[str, float]) -> ScorerValue:
    """Return the mean weight of a label; a label without a weight is an error."""

    def read(score: SampleScore) -> Any:
        label = score.get(field)
        return None if label is None else weights.get(str(label), str(label))

    def invalid(label: Any) -> str:
        known = suggestion(label, list(weights))
        return f"the label {label!r} of {field!r} has no weight{known}"

    return mean_measure(name, read, missing_message(field), invalid=invalid)


def extreme(field: str, name: str, which: Callable[..., float]) -> ScorerValue:
    """Return the smallest or the largest value of a field."""

    def value(numbers: Sequence[float]) -> float:
        return math.nan if any(map(math.isnan, numbers)) else float(which(numbers))

    return _of_field(field, name, value, _direction(field))


def standard_deviation(field: str, name: str) -> ScorerValue:
    """Return the sample standard deviation of a field (n - 1, as in the documentation's
    example); 0 for a single value."""

    def value(numbers: Sequence[float]) -> float:
        n = len(numbers)
        if n < 2:
            return 0.0
        centre = math.fsum(numbers) / n
        return math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / (n - 1))

    return _of_field(field, name, value)


def sum_measure(name: str, read: Read, missing: str) -> ScorerValue:
    """Return a sum over all samples."""
    return _without_stderr(
        name, read, lambda values: float(sum(_numbers(values))), missing
    )


def ratio_measure(
    name: str,
    read: Callable[[SampleScore], list[Any] | None],
    score: Callable[[Sequence[float]], float],
    missing: str,
    ratio: Ratio | None = None,
) -> ScorerValue:
    """Return a value computed from counts that are summed over samples.

    Args:
        read: Scores of a sample → counts.
        score: Sums of the counts → value.
        ratio: Numerator and denominator, if it is a ratio to which a row adds at most
            1.
    """

    def totals(values: Sequence[Any]) -> Totals:
        counts = [
            [math.fsum(_numbers(column)) for column in zip(*_rows(value), strict=True)]
            for value in values
        ]
        columns = [list(column) for column in zip(*counts, strict=True)]
        return Totals(columns=columns, score=score, is_ratio=True)

    how = Metric(
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
    return ScorerValue(name=name, read=read, how=how)


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

    return named_values_measure(name, read, several, missing_message(field))


def named_values_measure(
    name: str,
    read: Read,
    several: Callable[[Sequence[Any]], Mapping[str, Estimate]],
    missing: str,
) -> ScorerValue:
    """Return values whose names are known only after scoring."""
    how = Metric(
        name=name,
        aggregate=lambda values: Estimate(math.nan),
        several=several,
        lacking=missing,
    )
    return ScorerValue(name=name, read=read, how=how)


def _of_field(
    field: str,
    name: str,
    value: Callable[[Sequence[float]], float],
    higher_is_better: bool | None = None,
) -> ScorerValue:
    invalid, missing = _invalid(f"the score {field!r}"), missing_message(field)

    def of_numbers(values: Sequence[Any]) -> float:
        return value(_numbers(values, invalid))

    return _without_stderr(name, _reader(field), of_numbers, missing, higher_is_better)


def _without_stderr(
    name: str,
    read: Read,
    value: Callable[[Sequence[Any]], float],
    missing: str,
    higher_is_better: bool | None = None,
) -> ScorerValue:
    how = Metric(
        name=name,
        aggregate=lambda values: Estimate(value(values)),
        higher_is_better=higher_is_better,
        number=value,
        lacking=missing,
        closed=True,
    )
    return ScorerValue(name=name, read=read, how=how)


def _reader(field: str) -> Read:
    """Return a function that reads a field as a number. Other values are kept and
    reported by the aggregation."""

    def read(score: SampleScore) -> Any:
        value = score.get(field)
        number = number_of(value)
        return value if number is None else number

    return read


def _direction(field: str) -> bool | None:
    """Return whether higher is better for a score; ``None`` if unknown."""
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
    """Return the value of sums with its standard error, if it has one."""
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
