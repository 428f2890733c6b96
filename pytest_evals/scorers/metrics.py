"""Metrics by name and their aggregation.

Names, defaults and directions are lm-eval's (0.4.13). A new metric needs an aggregation
of its name, and an implementation in the module of its output type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_evals.core.metric import (
    ACCURACIES,
    ANYTHING,
    BOOTSTRAP_ITERS,
    SHARE,
    Metric,
    Span,
)
from pytest_evals.core.registry import METRIC_FAMILIES, Registry
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.aggregations import (
    AGGREGATIONS,
    Aggregation,
    check_installed,
    from_function,
    metric_of,
)
from pytest_evals.scorers.user_aggregation import Decides, PrefersOnes

if TYPE_CHECKING:
    from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A metric of a task file."""

    name: str
    function: Callable[..., Any] | None = None
    aggregation: str | Callable[[Any], Any] | None = None
    """Name or function; ``None`` for the metric's default, or the mean."""
    higher_is_better: bool | None = None  # direction; ``None`` for the metric's default
    is_directed: bool = True  # whether the metric has a direction
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The other keys of the entry, used by metrics of generated texts and ignored by
    others, as in lm-eval."""
    task_metric: TaskMetric | None = None
    """The metric, if it does not come from lm-eval."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its values, if known in advance."""
        return self.task_metric.names if self.task_metric is not None else (self.name,)


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """A built-in metric."""

    aggregation: str
    higher_is_better: bool
    numbers_in: tuple[str, ...] = ()
    """Output types for which a document's value is a number."""
    pairs_in: tuple[str, ...] = ()
    """Output types for which it is a pair, which has no mean."""
    span: Span = ANYTHING
    """Range of the number with the default aggregation; if not set, that of the
    aggregation."""

    @property
    def output_types(self) -> tuple[str, ...]:
        """Output types that have the metric."""
        return self.numbers_in + self.pairs_in


_CHOICE, _LIKELY = "multiple_choice", "loglikelihood"
_ROLLING, _TEXT = "loglikelihood_rolling", "generate_until"
_FROM_ONE = Span(low=1.0)
"""Log-probabilities are at most 0, so perplexities are at least 1."""

METRICS: Mapping[str, KnownMetric] = {
    "acc": KnownMetric("mean", True, (_CHOICE, _LIKELY), (_TEXT,), span=SHARE),
    # lm-eval knows the name but never computes it.
    "acc_all": KnownMetric("mean", True),
    "acc_bytes": KnownMetric("mean", True, (_CHOICE,), (_TEXT,), span=SHARE),
    "acc_mutual_info": KnownMetric("mean", True, (_CHOICE,), (_TEXT,), span=SHARE),
    "acc_norm": KnownMetric("mean", True, (_CHOICE,), (_TEXT,), span=SHARE),
    "bits_per_byte": KnownMetric(
        "bits_per_byte", False, (), (_ROLLING, _TEXT), span=Span(low=0.0)
    ),
    "bleu": KnownMetric("bleu", True, (), (_TEXT,)),
    "brier_score": KnownMetric(
        "brier_score", False, (), (_CHOICE, _TEXT), span=Span(0.0, 2.0)
    ),
    "bypass": KnownMetric("bypass", True, (_TEXT,)),
    "byte_perplexity": KnownMetric(
        "weighted_perplexity", False, (), (_ROLLING, _TEXT), span=_FROM_ONE
    ),
    "chrf": KnownMetric("chrf", True, (), (_TEXT,)),
    "chrf++": KnownMetric("chrf++", True, (), (_TEXT,)),
    "exact_match": KnownMetric("mean", True, (_CHOICE, _TEXT), (), span=SHARE),
    "f1": KnownMetric("f1", True, (), (_CHOICE, _TEXT)),
    "likelihood": KnownMetric("mean", True, (), (_CHOICE, _TEXT)),
    "mcc": KnownMetric("matthews_corrcoef", True, (), (_CHOICE, _TEXT)),
    "perplexity": KnownMetric(
        "perplexity", False, (_LIKELY,), (_TEXT,), span=_FROM_ONE
    ),
    "ter": KnownMetric("ter", False, (), (_TEXT,)),
    "word_perplexity": KnownMetric(
        "weighted_perplexity", False, (), (_ROLLING, _TEXT), span=_FROM_ONE
    ),
}
"""Name → built-in metric. Generated texts are passed as pairs of reference and text to
the aggregation for any name."""

_BETWEEN = ("mean", "median", "nanmean")
"""Aggregations whose result is between the smallest and largest value."""
_CAPPED = ("bleu", "chrf", "chrf++", "ter")
"""Metrics with at most ``_CAP`` replicates, for any aggregation."""
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

FAMILIES: Registry[Callable[[str, Mapping[str, Any]], TaskMetric]] = Registry(
    "family of metrics", METRIC_FAMILIES
)
"""Prefix of names such as ``lighteval:rouge_t5`` → function of the rest of a name and
of the arguments of its entry. Raises ``EvalsError`` for an unknown name or argument."""


def is_in_family(name: str) -> bool:
    """Whether a name has the prefix of a family."""
    prefix, colon, _ = name.partition(":")
    return bool(colon) and prefix in FAMILIES


def family_metric(name: str, arguments: Mapping[str, Any]) -> TaskMetric:
    """The metric of a name with the prefix of a family. Raises EvalsError if the family
    has no such metric, or an argument is invalid."""
    prefix, _, rest = name.partition(":")
    return FAMILIES[prefix](rest, arguments)


def default_metrics(output_type: str) -> tuple[MetricSpec, ...]:
    """The metrics of a task without ``metric_list``. Raises UnknownNameError if the
    output type is unknown."""
    return tuple(MetricSpec(name=name) for name in _DEFAULTS[output_type])


@lru_cache
def known_metrics(output_type: str) -> Registry[KnownMetric]:
    """Built-in metrics of an output type. Raises UnknownNameError if the output type is
    unknown."""
    default_metrics(output_type)  # raises for an unknown output type
    known = METRICS.items()
    measured = {name: one for name, one in known if output_type in one.output_types}
    return Registry(f"{output_type} metric", measured)


def is_measured(name: str, output_type: str) -> bool:
    """Whether documents of an output type have a value of a metric. Raises
    UnknownNameError if the metric or the output type is unknown. lm-eval ignores
    unknown metrics."""
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
    """Build the metric that aggregates scores. ``declared``: whether the task's
    ``process_results`` returns the values; then any name is valid. Raises
    UnknownNameError if the metric or aggregation is unknown; EvalsError if the
    aggregation does not accept the metric's values; MissingExtraError if the
    aggregation needs a library that is not installed."""
    aggregation = _aggregation(spec)
    check_installed(aggregation)
    if not declared and spec.function is None:
        _check_aggregation(spec, aggregation, output_type)
    if spec.name in _CAPPED:
        iterations = min(iterations, _CAP)
    made = metric_of(aggregation, spec.name, filter, direction(spec), iterations)
    closed = made.closed and not declared and spec.function is None
    span = _span(spec, aggregation, declared)
    return replace(made, ratio=aggregation.ratio, span=span, closed=closed)


def is_accuracy(spec: MetricSpec) -> Decides:
    """Whether 1 means correct and 0 wrong: for built-in accuracies, and unless lower is
    better, for metrics that are averaged or aggregated by a user function."""
    if spec.name in ACCURACIES:
        return True
    aggregation = _aggregation(spec)
    if direction(spec) is False:
        return False
    return aggregation is AGGREGATIONS["mean"] or (
        aggregation.several is not None and PrefersOnes(aggregation.value)
    )


def _check_aggregation(
    spec: MetricSpec, aggregation: Aggregation, output_type: str
) -> None:
    known = known_metrics(output_type)[spec.name]
    kind = "pairs" if output_type in known.pairs_in else "numbers"
    if aggregation.takes not in (kind, "anything"):
        fix = f"aggregation: !function <a function of the list of {kind}>"
        if output_type == "generate_until" and spec.name in ACCURACIES:
            fix = f"metric: exact_match, which compares strings, or {fix}"
        raise EvalsError(
            f"metric {spec.name!r} of output_type {output_type} returns {kind}, which "
            f"the aggregation {aggregation.name!r} does not accept\n  fix: {fix}"
        )


def _aggregation(spec: MetricSpec) -> Aggregation:
    if callable(spec.aggregation):
        return from_function(spec.aggregation)
    if spec.aggregation is not None:
        return AGGREGATIONS[spec.aggregation]
    known = METRICS.get(spec.name)
    return AGGREGATIONS[known.aggregation if known else "mean"]


def _span(spec: MetricSpec, aggregation: Aggregation, declared: bool) -> Span:
    """Range of the number: the aggregation's, or the metric's own, if narrower."""
    known = METRICS.get(spec.name)
    if known is None or declared or spec.function is not None:
        return aggregation.span
    is_default = aggregation is AGGREGATIONS[known.aggregation]
    if spec.name in ACCURACIES and not is_default:
        is_default = any(aggregation is AGGREGATIONS[name] for name in _BETWEEN)
    return known.span if is_default and known.span != ANYTHING else aggregation.span


def direction(spec: MetricSpec) -> bool | None:
    """Whether higher is better: as the entry sets it, or the metric's default."""
    if spec.higher_is_better is not None or not spec.is_directed:
        return spec.higher_is_better
    known = METRICS.get(spec.name)
    return known.higher_is_better if known else None
