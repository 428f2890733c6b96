"""Registration of metrics and aggregations of distributions without lm-eval (0.4.13,
``api/registry.py``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from pytest_evals.dialects.lm_eval.shims.metrics import aggregation_function
from pytest_evals.scorers.aggregations import AGGREGATIONS

T = TypeVar("T")


class Registered(NamedTuple):
    """Aggregations by name; default aggregations and directions by metric."""

    aggregations: Mapping[str, Callable[..., Any]]
    metric_aggregations: Mapping[str, Callable[..., Any]]
    higher_is_better: Mapping[str, bool]


_aggregations: dict[str, Callable[..., Any]] = {}
_metric_aggregations: dict[str, Callable[..., Any]] = {}
_higher_is_better: dict[str, bool] = {}
registered = Registered(_aggregations, _metric_aggregations, _higher_is_better)
"""As registered by modules of distributions; later registrations replace earlier
ones."""


def register_aggregation(name: str) -> Callable[[T], T]:
    """Decorator that registers an aggregation."""

    def register(function: T) -> T:
        assert callable(function)
        _aggregations[name] = function
        return function

    return register


def register_metric(**arguments: Any) -> Callable[[T], T]:
    """Decorator that registers a metric's direction and default aggregation, which must
    be registered before."""

    def register(function: T) -> T:
        metric = arguments["metric"]
        if "higher_is_better" in arguments:
            _higher_is_better[metric] = arguments["higher_is_better"]
        if "aggregation" in arguments:
            name = arguments["aggregation"]
            known = name not in _aggregations and name in AGGREGATIONS
            aggregation = aggregation_function(name) if known else _aggregations[name]
            _metric_aggregations[metric] = aggregation
        return function

    return register
