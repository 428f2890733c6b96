"""Aggregations: from the values of all documents to one number and its standard error.

The names, the formulas and the kind of standard error are lm-eval's (0.4.13,
``lm_eval.api.metrics``): analytic for the mean, the seeded bootstrap for some, none for
the rest. Values come in document order, which decides the bootstrap's draws.
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
from pytest_evals.errors import EvalsError
from pytest_evals.scorers import totals
from pytest_evals.scorers.corpus import (
    CORPUS_METRICS,
    SPANS,
    Corpus,
    check_library,
)
from pytest_evals.scorers.metric_value import plain
from pytest_evals.scorers.user_code import UserCode
from pytest_evals.stats import agreement, averages, bootstrap, resampling


def _as_they_are(values: Sequence[Any]) -> Sequence[Any]:
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """How values become a number.

    Args:
        name: Its name, for messages.
        takes: What the values are.
        read: All values to what the functions below take; called once.
        value: To the number.
        several: To the number or to several by name, where a function of the user's may
            give either.
        stderr: To the standard error by a formula.
        statistic: To what :func:`bootstrap.bootstrap_stderr` resamples.
        totals: To what gates know its noise by.
        ratio: How these are one count over another, where they are.
        span: The values that the number can have, whatever the documents' values are.
    """

    name: str
    takes: Literal["numbers", "pairs", "anything"] = "anything"
    read: Callable[[Sequence[Any]], Any] = _as_they_are
    value: Callable[[Any], float]
    several: Callable[[Any], float | Mapping[str, float]] | None = None
    stderr: Callable[[Any], float | None] | None = None
    statistic: Callable[[Any], Callable[[Any], Any]] | None = None
    totals: Callable[[Any], Totals] | None = None
    ratio: Ratio | None = None
    span: Span = ANYTHING


def totals_of(aggregation: Aggregation) -> Callable[[Sequence[Any]], Totals] | None:
    """Values to what they add to the sums that the number is computed from; ``None``
    where it is computed from no sums."""
    how, read = aggregation.totals, aggregation.read
    return None if how is None else lambda values: how(read(values))


def statistic_of(
    aggregation: Aggregation,
) -> Callable[[Sequence[Any]], Callable[[Any], Any]] | None:
    """Values to the numbers of many resamples at once; ``None`` if nothing computes
    these."""
    how, read = aggregation.statistic, aggregation.read
    return None if how is None else lambda values: how(read(values))


def number_of(aggregation: Aggregation) -> Callable[[Sequence[Any]], float]:
    """Values to the number alone."""
    return lambda values: aggregation.value(aggregation.read(values))


def estimate(
    aggregation: Aggregation,
    metric: str,
    iterations: int,
    values: Sequence[Any],
) -> Estimate | Mapping[str, Estimate]:
    """The number and its standard error; that is ``None`` where lm-eval says ``N/A``,
    for a single document, and where it is not finite. Several numbers have none.

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
        read = aggregation.read(values)
        value = (aggregation.several or aggregation.value)(read)
        if isinstance(value, Mapping):
            return {name: Estimate(number) for name, number in value.items()}
        stderr, method = _stderr(aggregation, read, len(values), iterations)
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


def own(function: Callable[[Any], Any]) -> Aggregation:
    """A task's own aggregation: a list of values to a number, or to several by name.

    One of lm-eval's own functions, which a task may import, is that aggregation: only
    so does it have lm-eval's standard error.
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
        found = plain(function(list(values)))
        if not isinstance(found, Mapping) or not found:
            return _number(found)
        return {str(name): _number(number) for name, number in found.items()}

    return Aggregation(name=name, value=value, several=several)


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise EvalsError(
            f"it must return a number, or a mapping of numbers, not {value!r}"
        )
    return float(value)


_OTHER_NAMES = {"bypass_agg": "bypass", "chrfpp": "chrf++", "f1_score": "f1"}
"""lm-eval's functions that are called otherwise than their aggregation."""


def check_installed(aggregation: Aggregation) -> None:
    """Make sure that the library behind an aggregation is there.

    Raises:
        MissingExtraError: It is not installed.
    """
    if aggregation.name in CORPUS_METRICS:
        check_library(aggregation.name)


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
    golds, predictions = map(_alone, _pairs(values))
    for position, pair in enumerate(zip(golds, predictions, strict=True)):
        if any(isinstance(label, (list, dict, set)) for label in pair):
            raise EvalsError(
                f"it takes pairs of labels, and value {position} is {pair!r}"
            )
    return golds, predictions


def _alone(labels: list[Any]) -> list[Any]:
    """Labels that each stand in a list of one, without it: scikit-learn takes them for
    a column."""
    if all(isinstance(label, list) and len(label) == 1 for label in labels):
        return [label[0] for label in labels]
    return labels


def _exp(exponent: float) -> float:
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf


def _weighted(pairs: tuple[list[Any], list[Any]]) -> float:
    return averages.weighted_mean(*pairs)


def _brier(pairs: tuple[list[Any], list[Any]]) -> float:
    golds, probabilities = pairs
    for position, (gold, row) in enumerate(zip(golds, probabilities, strict=True)):
        if not isinstance(gold, int) or not -len(row) <= gold < len(row):
            raise EvalsError(
                f"the right answer of value {position} is {gold!r}, "
                f"which is none of its {len(row)} choices"
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


def _all_right(key: Callable[[Mapping[str, Any]], Any], values: Any) -> list[int]:
    """For each group of answers, in the order of their coming, whether all are right.

    Args:
        key: What an answer's row has in common with those of its group.
        values: Pairs of an answer (true or false) and its row.
    """
    groups: dict[Any, bool] = {}
    for answer, row in values:
        right = (row["label"] == 1) == answer
        group = key(row["idx"])
        groups[group] = groups.get(group, True) and right
    return [int(right) for right in groups.values()]


def _question(idx: Mapping[str, Any]) -> Any:
    return idx["question"]


def _paragraph_and_question(idx: Mapping[str, Any]) -> Any:
    return idx["paragraph"], idx["question"]


_ACC_ALL = Aggregation(
    name="acc_all",
    takes="pairs",
    value=lambda values: averages.mean(_all_right(_paragraph_and_question, values)),
    # Questions of different paragraphs share a number: as in lm-eval.
    stderr=lambda values: averages.mean_stderr(_all_right(_question, values)),
    span=SHARE,
)
"""SuperGLUE's MultiRC: a question counts when all its answers are right. It has no name
in task files; Python tasks name the function."""

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
        value=averages.median,
        statistic=resampling.resampled_median,
    ),
    Aggregation(
        name="nanmean",
        takes="numbers",
        read=_numbers,
        value=averages.nanmean,
        statistic=resampling.resampled_nanmean,
        totals=totals.mean_totals,
    ),
    Aggregation(
        name="perplexity",
        takes="numbers",
        read=_numbers,
        value=lambda numbers: _exp(-averages.mean(numbers)),
        statistic=resampling.resampled_perplexity,
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
        statistic=lambda labels: resampling.resampled_f1(*labels),
        totals=totals.f1_totals,
        ratio=Ratio(above=(2, 0), below=(2, 1)),
        span=SHARE,
    ),
    Aggregation(
        name="matthews_corrcoef",
        takes="pairs",
        read=_labels,
        value=lambda labels: agreement.matthews_corrcoef(*labels),
        statistic=lambda labels: resampling.resampled_matthews(*labels),
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
    # lm-eval's constant for "predict only": the number means nothing.
    Aggregation(name="bypass", value=lambda values: 999.0, span=Span(999.0, 999.0)),
    *map(_corpus, CORPUS_METRICS),
)

AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation", {entry.name: entry for entry in _TABLE}
)
"""Name → aggregation, as ``aggregation:`` of a task file gives it."""
