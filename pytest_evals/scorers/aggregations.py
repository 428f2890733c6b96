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
    Ratio,
    Span,
    Totals,
)
from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError, plural
from pytest_evals.scorers import agreement, bootstrap, totals
from pytest_evals.scorers.corpus import CORPUS_METRICS, SPANS, Corpus, check_library
from pytest_evals.scorers.metric_value import plain
from pytest_evals.scorers.user_code import user_fault
from pytest_evals.stats import averages


def _unchanged(values: Sequence[Any]) -> Sequence[Any]:
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """Functions that compute an aggregation.

    Args:
        read: Converts all values to the argument of the functions below; called once.
        several: Computes a number or several by name, for user functions that may
            return either.
        statistic: Builds the argument of :func:`bootstrap.bootstrap_stderr`.
        totals: Computes the sums for the interval estimates of gates.
        ratio: Positions of a ratio of counts in the totals, if the number is one.
        span: Range of the number for any documents.
    """

    name: str
    takes: Literal["numbers", "pairs", "anything"] = "anything"
    read: Callable[[Sequence[Any]], Any] = _unchanged
    value: Callable[[Any], float]
    several: Callable[[Any], float | Mapping[str, float]] | None = None
    stderr: Callable[[Any], float | None] | None = None
    statistic: Callable[[Any], Callable[[Any], Any]] | None = None
    totals: Callable[[Any], Totals] | None = None
    ratio: Ratio | None = None
    span: Span = ANYTHING


def totals_of(aggregation: Aggregation) -> Callable[[Sequence[Any]], Totals] | None:
    """The function from values to the sums that determine the number; ``None`` if the
    number is not computed from sums."""
    totals, read = aggregation.totals, aggregation.read
    return None if totals is None else lambda values: totals(read(values))


def statistic_of(
    aggregation: Aggregation,
) -> Callable[[Sequence[Any]], Callable[[Any], Any]] | None:
    """The function from values to the numbers of many resamples, if any."""
    statistic, read = aggregation.statistic, aggregation.read
    return None if statistic is None else lambda values: statistic(read(values))


def number_of(aggregation: Aggregation) -> Callable[[Sequence[Any]], float]:
    """The function from values to the number alone."""
    return lambda values: aggregation.value(aggregation.read(values))


def estimate(
    aggregation: Aggregation,
    metric: str,
    iterations: int,
    values: Sequence[Any],
) -> Estimate | Mapping[str, Estimate]:
    """Compute the number and its standard error.

    The standard error is ``None`` if lm-eval reports ``N/A``, for a single document,
    and if it is not finite. Several numbers have none.

    ``iterations``: replicates of the bootstrap; 0 disables standard errors, as in
    lm-eval. Raises EvalsError if the aggregation does not accept the values."""
    try:
        read = aggregation.read(values)
        value = (aggregation.several or aggregation.value)(read)
        if isinstance(value, Mapping):
            return {name: Estimate(number) for name, number in value.items()}
        stderr, method = _stderr(aggregation, read, len(values), iterations)
    except (Exception, SystemExit) as fault:  # of the user's code
        what = f"aggregation {aggregation.name!r} of {metric!r}"
        raise EvalsError(user_fault(what, fault)) from fault
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
    name.

    Functions of lm-eval, which a task may import, become the aggregation of the same
    name, because only these have lm-eval's standard error.
    """
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
        raise EvalsError(
            f"it must return a number, or a mapping of numbers, not {value!r}"
        )
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
            raise EvalsError(
                f"it requires pairs of labels, but value {position} is {pair!r}"
            )
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


def _corpus(name: str) -> Aggregation:
    return Aggregation(
        name=name,
        takes="pairs",
        read=partial(Corpus, name),
        value=Corpus.score,
        statistic=Corpus.resampled,
        totals=Corpus.totals,
        span=SPANS[name],
    )


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


def _question(idx: Mapping[str, Any]) -> Any:
    return idx["question"]


def _paragraph_and_question(idx: Mapping[str, Any]) -> Any:
    return idx["paragraph"], idx["question"]


_ACC_ALL = Aggregation(
    name="acc_all",
    takes="pairs",
    value=lambda values: averages.mean(_all_correct(_paragraph_and_question, values)),
    # Like lm-eval, this mixes questions of different paragraphs with the same number.
    stderr=lambda values: averages.mean_stderr(_all_correct(_question, values)),
    span=SHARE,
)
"""SuperGLUE's MultiRC: a question is correct if all its answers are. Task files have no
name for it; Python tasks use the function."""

_TABLE = (
    Aggregation(
        name="mean",
        takes="numbers",
        read=_numbers,
        value=averages.mean,
        stderr=averages.mean_stderr,
    ),
    Aggregation(
        name="median",
        takes="numbers",
        read=_numbers,
        value=median,
        statistic=bootstrap.resampled_median,
    ),
    Aggregation(
        name="nanmean",
        takes="numbers",
        read=_numbers,
        value=nanmean,
        statistic=bootstrap.resampled_nanmean,
        totals=totals.mean_totals,
    ),
    Aggregation(
        name="perplexity",
        takes="numbers",
        read=_numbers,
        value=lambda numbers: _exp(-averages.mean(numbers)),
        statistic=bootstrap.resampled_perplexity,
        totals=totals.perplexity_totals,
        span=POSITIVE,
    ),
    Aggregation(
        name="weighted_perplexity",
        takes="pairs",
        read=_pairs,
        value=lambda pairs: _exp(-_weighted(pairs)),
        totals=totals.weighted_totals,
        span=POSITIVE,
    ),
    Aggregation(
        name="bits_per_byte",
        takes="pairs",
        read=_pairs,
        value=lambda pairs: -_weighted(pairs) / math.log(2),
        totals=partial(totals.weighted_totals, unit=math.log(2), is_log=False),
    ),
    Aggregation(
        name="f1",
        takes="pairs",
        read=_labels,
        value=lambda labels: agreement.f1_score(*labels),
        statistic=lambda labels: bootstrap.resampled_f1(*labels),
        totals=totals.f1_totals,
        ratio=Ratio(above=(2, 0), below=(2, 1)),
        span=SHARE,
    ),
    Aggregation(
        name="matthews_corrcoef",
        takes="pairs",
        read=_labels,
        value=lambda labels: agreement.matthews_corrcoef(*labels),
        statistic=lambda labels: bootstrap.resampled_matthews(*labels),
        totals=totals.matthews_totals,
        span=Span(-1.0, 1.0),
    ),
    Aggregation(
        name="brier_score",
        takes="pairs",
        read=_pairs,
        value=_brier,
        totals=totals.brier_totals,
        span=Span(low=0.0),
    ),
    # lm-eval's constant for "predict only": the number has no meaning.
    Aggregation(name="bypass", value=lambda values: 999.0, span=Span(999.0, 999.0)),
    *map(_corpus, CORPUS_METRICS),
)

AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation", {entry.name: entry for entry in _TABLE}
)
"""Name in ``aggregation:`` of a task file → aggregation."""
