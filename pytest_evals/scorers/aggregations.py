"""Aggregations: map the values of all documents to one number and its standard error.

Names, formulas and the kind of standard error are lm-eval's (0.4.13,
``lm_eval.api.metrics``): analytic for the mean, a seeded bootstrap for some, none for
the rest. Values are in document order, which determines the bootstrap's draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pytest_evals.core.metric import (
    ANYTHING,
    POSITIVE,
    SHARE,
    Estimate,
    Metric,
    Ratio,
    Span,
    Totals,
)
from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError, plural
from pytest_evals.scorers import agreement, bootstrap
from pytest_evals.scorers.corpus import CORPUS_METRICS, SPANS, Corpus, check_library
from pytest_evals.scorers.metric_value import plain
from pytest_evals.scorers.user_code import user_fault
from pytest_evals.stats import averages


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """Functions that compute an aggregation."""

    name: str
    takes: Literal["numbers", "pairs", "anything"] = "anything"
    read: Callable[[Sequence[Any]], Any] = lambda values: values
    """Converts all values to the argument of the functions below; called once."""
    value: Callable[[Any], float]
    several: Callable[[Any], float | Mapping[str, float]] | None = None
    """Computes a number or several by name, for user functions that may return
    either."""
    stderr: Callable[[Any], float | None] | None = None
    statistic: Callable[[Any], Callable[[Any], Any]] | None = None
    """Builds the argument of :func:`bootstrap.bootstrap_stderr`."""
    totals: Callable[[Any], Totals] | None = None
    """Computes the sums for the interval estimates of gates."""
    ratio: Ratio | None = None
    """Positions of a ratio of counts in the totals, if the number is one."""
    span: Span = ANYTHING  # range of the number for any documents


def metric_of(
    aggregation: Aggregation,
    name: str,
    filter: str,  # noqa: A002 - the word of results files
    higher_is_better: bool | None,
    iterations: int,
) -> Metric:
    """The metric that aggregates scores in this way."""
    read, totals = aggregation.read, aggregation.totals
    statistic = aggregation.statistic
    return Metric(
        name=name,
        filter=filter,
        aggregate=partial(estimate, aggregation, name, iterations),
        higher_is_better=higher_is_better,
        is_mean=aggregation is AGGREGATIONS["mean"],
        totals=totals and (lambda values: totals(read(values))),
        number=lambda values: aggregation.value(read(values)),
        statistic=statistic and (lambda values: statistic(read(values))),
        span=aggregation.span,
        closed=aggregation.several is None,
    )


def estimate(
    aggregation: Aggregation, metric: str, iterations: int, values: Sequence[Any]
) -> Estimate | Mapping[str, Estimate]:
    """Compute the number and its standard error. The standard error is ``None`` if
    lm-eval reports ``N/A``, for a single document, and if it is not finite. Several
    numbers have none. ``iterations``: replicates of the bootstrap; 0 disables standard
    errors, as in lm-eval. Raises EvalsError if the aggregation does not accept the
    values."""
    try:
        read = aggregation.read(values)
        value = (aggregation.several or aggregation.value)(read)
        if isinstance(value, Mapping):
            return {name: Estimate(number) for name, number in value.items()}
        stderr, method = _stderr(aggregation, read, len(values), iterations)
    except (Exception, SystemExit) as fault:  # of the user's code
        message = f"aggregation {aggregation.name!r} of {metric!r}"
        raise EvalsError(user_fault(message, fault)) from fault
    if stderr is None or not math.isfinite(stderr):
        return Estimate(value)
    return Estimate(value, stderr, method)


def _stderr(
    aggregation: Aggregation, read: Any, n: int, iterations: int
) -> tuple[float | None, str]:
    if iterations <= 0 or n < 2:
        return None, ""
    if aggregation.stderr is not None:
        return aggregation.stderr(read), "analytic"
    if aggregation.statistic is not None:
        statistic = aggregation.statistic(read)
        return bootstrap.bootstrap_stderr(n, statistic, iterations), "bootstrap"
    return None, ""


def from_function(function: Callable[[Any], Any]) -> Aggregation:
    """Build an aggregation from a user function, which returns a number or several by
    name. Functions of lm-eval, which a task may import, become the aggregation of the
    same name, because only these have lm-eval's standard error."""
    name = str(getattr(function, "__name__", type(function).__name__))
    if getattr(function, "__module__", "") == "lm_eval.api.metrics":
        known = _OTHER_NAMES.get(name, name)
        if known == "acc_all":
            return _ACC_ALL
        if known in AGGREGATIONS:
            return AGGREGATIONS[known]

    def value(values: Sequence[Any]) -> float:
        return _number(plain(function(list(values))))

    def several(values: Sequence[Any]) -> float | Mapping[str, float]:
        result = plain(function(list(values)))
        if not isinstance(result, Mapping) or not result:
            return _number(result)
        return {str(name): _number(number) for name, number in result.items()}

    return Aggregation(name=name, value=value, several=several)


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)):
        message = f"it must return a number, or a mapping of numbers, not {value!r}"
        raise EvalsError(message)
    return float(value)


_OTHER_NAMES = {"bypass_agg": "bypass", "chrfpp": "chrf++", "f1_score": "f1"}
"""lm-eval's functions whose names differ from their aggregation's."""


def check_installed(aggregation: Aggregation) -> None:
    """Require the library of an aggregation."""
    if aggregation.name in CORPUS_METRICS:
        check_library(aggregation.name)


def _numbers(values: Sequence[Any]) -> Sequence[float]:
    for position, value in enumerate(values):
        if not isinstance(value, (int, float)):
            raise EvalsError(
                f"it requires numbers, but value {position} is {value!r}; "
                "set an aggregation that accepts such values"
            )
    return values


def _pairs(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    for position, value in enumerate(values):
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise EvalsError(f"it requires pairs, but value {position} is {value!r}")
    return [value[0] for value in values], [value[1] for value in values]


def _labels(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    golds, predictions = map(_unwrapped, _pairs(values))
    for position, pair in enumerate(zip(golds, predictions, strict=True)):
        if any(isinstance(label, (list, dict, set)) for label in pair):
            message = f"it requires pairs of labels, but value {position} is {pair!r}"
            raise EvalsError(message)
    return golds, predictions


def _unwrapped(labels: list[Any]) -> list[Any]:
    """Unwrap labels if each is a list of one, as scikit-learn does with a column."""
    if all(isinstance(label, list) and len(label) == 1 for label in labels):
        return [label[0] for label in labels]
    return labels


def _exp(exponent: float) -> float:
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf


def median(values: Sequence[float]) -> float:
    """The upper median: for even counts, the larger middle value."""
    return sorted(values)[len(values) // 2]


def nanmean(values: Sequence[float]) -> float:
    """The mean of the values that are not NaN; NaN if missing."""
    kept = [value for value in values if not math.isnan(value)]
    return averages.mean(kept) if kept else math.nan


def _weighted(pairs: tuple[list[Any], list[Any]]) -> float:
    """The sum of the values over the sum of the weights: each value is already a total
    over its weight (nats of a string, over its words)."""
    values, weights = pairs
    return float(sum(values) / sum(weights))


def _brier(pairs: tuple[list[Any], list[Any]]) -> float:
    golds, probabilities = pairs
    for position, (gold, row) in enumerate(zip(golds, probabilities, strict=True)):
        if not isinstance(gold, int) or not -len(row) <= gold < len(row):
            raise EvalsError(
                f"the correct answer of value {position} is {gold!r}, "
                f"but it has {plural(len(row), 'choice')}"
            )
    return agreement.brier_score(golds, probabilities)


def _all_correct(key: Callable[[Mapping[str, Any]], Any], values: Any) -> list[int]:
    """Whether all answers of each group are correct, in the order of groups. ``key``:
    the group of an answer's row. ``values``: pairs of an answer (true or false) and its
    row."""
    groups: dict[Any, bool] = {}
    for answer, row in values:
        correct = (row["label"] == 1) == answer
        group = key(row["idx"])
        groups[group] = groups.get(group, True) and correct
    return [int(correct) for correct in groups.values()]


_ACC_ALL = Aggregation(
    name="acc_all",
    takes="pairs",
    value=lambda values: averages.mean(
        _all_correct(lambda idx: (idx["paragraph"], idx["question"]), values)
    ),
    # Like lm-eval, this mixes questions of different paragraphs with the same number.
    stderr=lambda values: averages.mean_stderr(
        _all_correct(lambda idx: idx["question"], values)
    ),
    span=SHARE,
)
"""SuperGLUE's MultiRC: a question is correct if all its answers are. Task files have no
name for it; Python tasks use the function."""

_numeric = partial(Aggregation, takes="numbers", read=_numbers)
_paired = partial(Aggregation, takes="pairs", read=_pairs)
_labelled = partial(Aggregation, takes="pairs", read=_labels)

_TABLE = (
    _numeric(name="mean", value=averages.mean, stderr=averages.mean_stderr),
    _numeric(name="median", value=median, statistic=bootstrap.resampled_median),
    _numeric(
        name="nanmean",
        value=nanmean,
        statistic=bootstrap.resampled_nanmean,
        totals=agreement.mean_totals,
    ),
    _numeric(
        name="perplexity",
        value=lambda numbers: _exp(-averages.mean(numbers)),
        statistic=bootstrap.resampled_perplexity,
        totals=agreement.perplexity_totals,
        span=POSITIVE,
    ),
    _paired(
        name="weighted_perplexity",
        value=lambda pairs: _exp(-_weighted(pairs)),
        totals=agreement.weighted_totals,
        span=POSITIVE,
    ),
    _paired(
        name="bits_per_byte",
        value=lambda pairs: -_weighted(pairs) / math.log(2),
        totals=partial(agreement.weighted_totals, unit=math.log(2), is_log=False),
    ),
    _labelled(
        name="f1",
        value=lambda labels: agreement.f1_score(*labels),
        statistic=lambda labels: bootstrap.resampled_f1(*labels),
        totals=agreement.f1_totals,
        ratio=Ratio(above=(2, 0), below=(2, 1)),
        span=SHARE,
    ),
    _labelled(
        name="matthews_corrcoef",
        value=lambda labels: agreement.matthews_corrcoef(*labels),
        statistic=lambda labels: bootstrap.resampled_matthews(*labels),
        totals=agreement.matthews_totals,
        span=Span(-1.0, 1.0),
    ),
    _paired(
        name="brier_score",
        value=_brier,
        totals=agreement.brier_totals,
        span=Span(low=0.0),
    ),
    # lm-eval's constant for "predict only": the number has no meaning.
    Aggregation(name="bypass", value=lambda values: 999.0, span=Span(999.0, 999.0)),
    *(
        Aggregation(
            name=name,
            takes="pairs",
            read=partial(Corpus, name),
            value=Corpus.score,
            statistic=Corpus.resampled,
            totals=Corpus.totals,
            span=SPANS[name],
        )
        for name in CORPUS_METRICS
    ),
)

AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation", {entry.name: entry for entry in _TABLE}
)
"""Name in ``aggregation:`` of a task file → aggregation."""
