"""Metrics by name: what a task file may ask for, and how each adds up.

The names, defaults and directions are lm-eval's (0.4.13). A metric that joins the table
needs an aggregation of that name, and a way to be measured in the module of its output
type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from pytest_evals.core.metric import (
    ANYTHING,
    BOOTSTRAP_ITERS,
    SHARE,
    Metric,
    Span,
)
from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.aggregations import (
    AGGREGATIONS,
    Aggregation,
    check_installed,
    estimate,
    number_of,
    own,
    statistic_of,
    totals_of,
)
from pytest_evals.scorers.user_aggregation import Decides, PrefersOnes

if TYPE_CHECKING:
    from pytest_evals.scorers.lighteval.task_metric import Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric as the task file gives it.

    Args:
        name: Its name; that of the function, if it is one.
        function: The task's own function.
        aggregation: Name or function; ``None`` for the metric's own, or the mean.
        higher_is_better: Direction; ``None`` for the metric's own.
        is_directed: Whether it has a direction at all.
        arguments: Whatever else stands in the entry. Metrics of generated texts take
            these; all others ignore them, as in lm-eval.
        computed: The metric itself, where it is none of lm-eval's kind.
    """

    name: str
    function: Callable[..., Any] | None = None
    aggregation: str | Callable[[Any], Any] | None = None
    higher_is_better: bool | None = None
    is_directed: bool = True
    arguments: Mapping[str, Any] = field(default_factory=dict)
    computed: Computed | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its numbers, as far as they are known beforehand."""
        return self.computed.names if self.computed is not None else (self.name,)


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """A metric that has a name in every task.

    Args:
        aggregation: Name of its aggregation.
        higher_is_better: Its direction.
        numbers_in: Output types where a document's value is a number, or none at all.
        pairs_in: Output types where it is a pair, which has no mean.
        accuracy: Whether its value says right (1) or wrong (0).
        span: The values that the number can have where it is measured here and adds up
            in its own way; without one, those of its aggregation.
    """

    aggregation: str
    higher_is_better: bool
    numbers_in: tuple[str, ...] = ()
    pairs_in: tuple[str, ...] = ()
    accuracy: bool = False
    span: Span = ANYTHING

    @property
    def output_types(self) -> tuple[str, ...]:
        """Where it is measured."""
        return self.numbers_in + self.pairs_in


_CHOICE, _LIKELY = "multiple_choice", "loglikelihood"
_ROLLING, _TEXT = "loglikelihood_rolling", "generate_until"

_TO_ONE = Span(low=1.0)
"""Log-probabilities are 0 at most, so a perplexity is 1 at least."""

METRICS: Mapping[str, KnownMetric] = {
    "acc": KnownMetric("mean", True, (_CHOICE, _LIKELY), (_TEXT,), True, SHARE),
    # Its name is known to lm-eval, which measures it nowhere.
    "acc_all": KnownMetric("mean", True),
    "acc_bytes": KnownMetric("mean", True, (_CHOICE,), (_TEXT,), True, SHARE),
    "acc_mutual_info": KnownMetric("mean", True, (_CHOICE,), (_TEXT,), True, SHARE),
    "acc_norm": KnownMetric("mean", True, (_CHOICE,), (_TEXT,), True, SHARE),
    "bits_per_byte": KnownMetric(
        "bits_per_byte", False, (), (_ROLLING, _TEXT), span=Span(low=0.0)
    ),
    "bleu": KnownMetric("bleu", True, (), (_TEXT,)),
    "brier_score": KnownMetric(
        "brier_score", False, (), (_CHOICE, _TEXT), span=Span(0.0, 2.0)
    ),
    "bypass": KnownMetric("bypass", True, (_TEXT,)),
    "byte_perplexity": KnownMetric(
        "weighted_perplexity", False, (), (_ROLLING, _TEXT), span=_TO_ONE
    ),
    "chrf": KnownMetric("chrf", True, (), (_TEXT,)),
    "chrf++": KnownMetric("chrf++", True, (), (_TEXT,)),
    "exact_match": KnownMetric("mean", True, (_CHOICE, _TEXT), (), True, SHARE),
    "f1": KnownMetric("f1", True, (), (_CHOICE, _TEXT)),
    "likelihood": KnownMetric("mean", True, (), (_CHOICE, _TEXT)),
    "mcc": KnownMetric("matthews_corrcoef", True, (), (_CHOICE, _TEXT)),
    "perplexity": KnownMetric("perplexity", False, (_LIKELY,), (_TEXT,), span=_TO_ONE),
    "ter": KnownMetric("ter", False, (), (_TEXT,)),
    "word_perplexity": KnownMetric(
        "weighted_perplexity", False, (), (_ROLLING, _TEXT), span=_TO_ONE
    ),
}
"""Name → what is known of it. Generated texts are handed on as pairs of reference and
text, whatever the metric's name, for an aggregation of the task's own."""

_BETWEEN = ("mean", "median", "nanmean")
"""Aggregations whose number lies between the values of documents."""
_CAPPED = ("bleu", "chrf", "chrf++", "ter")
"""Metrics with at most ``_CAP`` replicates; decided by name, whatever adds them up."""
_CAP = 100

_DEFAULTS: Registry[tuple[str, ...]] = Registry(
    "output_type",
    {
        _CHOICE: ("acc", "acc_norm"),
        _LIKELY: ("perplexity", "acc"),
        _ROLLING: ("word_perplexity", "byte_perplexity", "bits_per_byte"),
        _TEXT: ("exact_match",),
    },
)


def default_metrics(output_type: str) -> tuple[MetricSpec, ...]:
    """The metrics of a task that has no ``metric_list``.

    Raises:
        UnknownNameError: There is no such output type.
    """
    return tuple(MetricSpec(name=name) for name in _DEFAULTS[output_type])


@lru_cache
def known_metrics(output_type: str) -> Registry[KnownMetric]:
    """What can be measured of that output type, without a function of the task's own.

    Raises:
        UnknownNameError: There is no such output type.
    """
    default_metrics(output_type)  # raises for an unknown output type
    measured = {
        name: known
        for name, known in METRICS.items()
        if output_type in known.output_types
    }
    return Registry(f"metric of output_type {output_type}", measured)


def is_measured(name: str, output_type: str) -> bool:
    """Whether documents of that output type get a value of that name.

    Raises:
        UnknownNameError: Nothing has that name, wherever it is measured; or there is no
            such output type. lm-eval leaves out such a metric.
    """
    known = known_metrics(output_type)
    if name not in METRICS:
        known[name]
    return name in known


def metric(
    spec: MetricSpec,
    filter: str,  # noqa: A002 - the word of results files
    output_type: str,
    declared: bool,
    iterations: int = BOOTSTRAP_ITERS,
) -> Metric:
    """The metric of a task, ready to add up scores.

    Args:
        spec: The task file's entry.
        filter: Name of the filter pipeline.
        output_type: The task's.
        declared: Whether the task's ``process_results`` makes the values; then any name
            is good.
        iterations: Replicates of the bootstrap.

    Raises:
        UnknownNameError: No metric or no aggregation has that name.
        EvalsError: The metric's values are not what the aggregation takes.
        MissingExtraError: The aggregation needs a library that is not installed.
    """
    how = _aggregation(spec)
    check_installed(how)
    if not declared and spec.function is None:
        _check_adds_up(spec, known_metrics(output_type)[spec.name], how, output_type)
    if spec.name in _CAPPED:
        iterations = min(iterations, _CAP)
    return Metric(
        name=spec.name,
        filter=filter,
        aggregate=partial(estimate, how, spec.name, iterations),
        higher_is_better=_higher_is_better(spec),
        is_mean=how is AGGREGATIONS["mean"],
        totals=totals_of(how),
        ratio=how.ratio,
        number=number_of(how),
        statistic=statistic_of(how),
        span=_span(spec, how, declared),
        closed=not declared and spec.function is None and how.several is None,
    )


def is_accuracy(spec: MetricSpec) -> Decides:
    """Whether a value of 1 means correct and 0 wrong: for a known accuracy, and for
    values whose mean counts, or that a user's function aggregates, unless lower is
    better."""
    known = METRICS.get(spec.name)
    if known is not None and known.accuracy:
        return True
    how = _aggregation(spec)
    if _higher_is_better(spec) is False:
        return False
    return how is AGGREGATIONS["mean"] or (
        how.several is not None and PrefersOnes(how.value)
    )


def _check_adds_up(
    spec: MetricSpec, known: KnownMetric, how: Aggregation, output_type: str
) -> None:
    given = "pairs" if output_type in known.pairs_in else "numbers"
    if how.takes not in (given, "anything"):
        raise EvalsError(
            f"metric {spec.name!r} of output_type {output_type} gives {given}, which "
            f"the aggregation {how.name!r} cannot add up\n"
            f"  fix: aggregation: !function <a function of the list of {given}>"
        )


def _aggregation(spec: MetricSpec) -> Aggregation:
    """How its values add up.

    Raises:
        UnknownNameError: No aggregation has that name.
    """
    if callable(spec.aggregation):
        return own(spec.aggregation)
    if spec.aggregation is not None:
        return AGGREGATIONS[spec.aggregation]
    known = METRICS.get(spec.name)
    return AGGREGATIONS[known.aggregation if known else "mean"]


def _span(spec: MetricSpec, how: Aggregation, declared: bool) -> Span:
    """The values that the number can have: those of its aggregation, unless documents
    are measured here, which narrows them down."""
    known = METRICS.get(spec.name)
    if known is None or declared or spec.function is not None:
        return how.span
    usual = how is AGGREGATIONS[known.aggregation]
    if known.accuracy and not usual:
        usual = any(how is AGGREGATIONS[name] for name in _BETWEEN)
    return known.span if usual and known.span != ANYTHING else how.span


def _higher_is_better(spec: MetricSpec) -> bool | None:
    if spec.higher_is_better is not None or not spec.is_directed:
        return spec.higher_is_better
    known = METRICS.get(spec.name)
    return known.higher_is_better if known else None
