"""Metrics by name: what a task file may ask for, and how each adds up.

The names, defaults and directions are lm-eval's (0.4.13). A metric that joins the table
needs an aggregation of that name, and a way to be measured in the module of its output
type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_evals.core.metric import Metric
from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.aggregations import AGGREGATIONS, Aggregation, estimate, own
from pytest_evals.stats.bootstrap import ITERATIONS

__all__ = [
    "METRICS",
    "KnownMetric",
    "MetricSpec",
    "default_metrics",
    "is_accuracy",
    "known_metrics",
    "metric",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric as the task file gives it.

    Args:
        name: Its name; that of the function, if it is one.
        function: The task's own function.
        aggregation: Name or function; ``None`` for the metric's own, or the mean.
        higher_is_better: Direction; ``None`` for the metric's own.
        arguments: Whatever else stands in the entry. Metrics of generated texts take
            these; all others ignore them, as in lm-eval.
    """

    name: str
    function: Callable[..., Any] | None = None
    aggregation: str | Callable[[Any], Any] | None = None
    higher_is_better: bool | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """A metric that has a name in every task.

    Args:
        aggregation: Name of its aggregation.
        higher_is_better: Its direction.
        output_types: Where it is measured.
        accuracy: Whether its value says right (1) or wrong (0).
        pairs_in: Output types where its values are pairs, which have no mean.
    """

    aggregation: str
    higher_is_better: bool
    output_types: tuple[str, ...]
    accuracy: bool = False
    pairs_in: tuple[str, ...] = ()


_CHOICE, _LIKELY = "multiple_choice", "loglikelihood"
_ROLLING, _TEXT = "loglikelihood_rolling", "generate_until"

METRICS: Mapping[str, KnownMetric] = {
    "acc": KnownMetric("mean", True, (_CHOICE, _LIKELY, _TEXT), True, (_TEXT,)),
    "acc_bytes": KnownMetric("mean", True, (_CHOICE,), True),
    "acc_mutual_info": KnownMetric("mean", True, (_CHOICE,), True),
    "acc_norm": KnownMetric("mean", True, (_CHOICE,), True),
    "bits_per_byte": KnownMetric(
        "bits_per_byte", False, (_ROLLING,), False, (_ROLLING,)
    ),
    "brier_score": KnownMetric("brier_score", False, (_CHOICE,), False, (_CHOICE,)),
    "bypass": KnownMetric("bypass", True, (_CHOICE, _LIKELY, _TEXT)),
    "byte_perplexity": KnownMetric(
        "weighted_perplexity", False, (_ROLLING,), False, (_ROLLING,)
    ),
    "exact_match": KnownMetric("mean", True, (_CHOICE, _TEXT), True),
    "f1": KnownMetric("f1", True, (_CHOICE, _TEXT), False, (_CHOICE, _TEXT)),
    "likelihood": KnownMetric("mean", True, (_CHOICE,), False, (_CHOICE,)),
    "mcc": KnownMetric("matthews_corrcoef", True, (_CHOICE,), False, (_CHOICE,)),
    "perplexity": KnownMetric("perplexity", False, (_LIKELY,)),
    "word_perplexity": KnownMetric(
        "weighted_perplexity", False, (_ROLLING,), False, (_ROLLING,)
    ),
}
"""Name → what is known of it."""

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


def known_metrics(output_type: str) -> Registry[KnownMetric]:
    """What can be measured of that output type, without a function of the task's own.

    Raises:
        UnknownNameError: There is no such output type.
    """
    default_metrics(output_type)  # raises for an unknown output type
    measured = {n: m for n, m in METRICS.items() if output_type in m.output_types}
    return Registry(f"metric of output_type {output_type}", measured)


def metric(
    spec: MetricSpec,
    filter: str,  # noqa: A002 - the word of results files
    output_type: str,
    declared: bool,
    iterations: int = ITERATIONS,
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
        EvalsError: The metric's values are pairs, which the aggregation cannot add up.
    """
    if not declared and spec.function is None:
        _check_adds_up(spec, known_metrics(output_type)[spec.name], output_type)
    how = _aggregation(spec)
    return Metric(
        name=spec.name,
        filter=filter,
        aggregate=partial(estimate, how, spec.name, iterations),
        higher_is_better=_higher_is_better(spec),
        is_mean=_aggregation_name(spec) == "mean",
    )


def is_accuracy(spec: MetricSpec) -> bool:
    """Whether a value of 1 means right and 0 means wrong: a known accuracy, or whatever
    is averaged and not better when lower."""
    known = METRICS.get(spec.name)
    if known is not None and known.accuracy:
        return True
    averaged = _aggregation_name(spec) == "mean"
    return averaged and _higher_is_better(spec) is not False


def _check_adds_up(spec: MetricSpec, known: KnownMetric, output_type: str) -> None:
    if output_type in known.pairs_in and _aggregation_name(spec) == "mean":
        raise EvalsError(
            f"metric {spec.name!r} of output_type {output_type} gives pairs, which the "
            "aggregation 'mean' cannot add up\n"
            "  fix: aggregation: !function <a function of the list of pairs>"
        )


def _aggregation_name(spec: MetricSpec) -> str | None:
    """The aggregation's name, ``None`` for a function of the task's own."""
    if callable(spec.aggregation):
        return None
    if spec.aggregation is not None:
        return spec.aggregation
    known = METRICS.get(spec.name)
    return known.aggregation if known else "mean"


def _aggregation(spec: MetricSpec) -> Aggregation:
    if callable(spec.aggregation):
        return own(spec.aggregation)
    return AGGREGATIONS[_aggregation_name(spec) or "mean"]


def _higher_is_better(spec: MetricSpec) -> bool | None:
    if spec.higher_is_better is not None:
        return spec.higher_is_better
    known = METRICS.get(spec.name)
    return known.higher_is_better if known else None
