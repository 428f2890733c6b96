"""Filters, metrics and aggregations that are not lm-eval's own: of families
(``lighteval:rouge_t5``), of user hooks, and of installed distributions, by lm-eval's
entry points (``lm_eval.filters``, ``.metrics``, ``.aggregations``; ``docs/plugins.md``
of its repository, September 2026).

Built-in names always take precedence, and of two distributions with one name the first
on ``sys.path``. A module is imported when a task names its object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_evals.errors import EvalsError
from pytest_evals.scorers.aggregations import AGGREGATIONS
from pytest_evals.scorers.filters import FILTERS
from pytest_evals.scorers.metrics import METRICS, family_metric, is_in_family

if TYPE_CHECKING:
    from pytest_evals.dialects.lm_eval.shims.registry import Registered
    from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric


ENTRY_POINTS = "pytest_evals.metrics"  # entry point group for custom metrics


def name_of(metric: Any) -> str:
    """The name of a function or of an object's class."""
    return str(getattr(metric, "__name__", type(metric).__name__))


def load_entry_point(entry_point: EntryPoint) -> Any:
    """Load an entry point. Raises EvalsError if it cannot be loaded; the message names
    the distribution."""
    try:
        return entry_point.load()
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        raise EvalsError(
            f"{origin_of(entry_point)} cannot be loaded: {kind}: {error}\n"
            "  fix: repair or uninstall the distribution"
        ) from error


def origin_of(entry_point: EntryPoint) -> str:
    """An entry point and its distribution, for error messages."""
    distribution = entry_point.dist
    by = "" if distribution is None else f" of {distribution.name}"
    return (
        f"the entry point {entry_point.name!r} ({entry_point.group}){by}, "
        f"{entry_point.value},"
    )


@dataclass(frozen=True, slots=True)
class MetricNames:
    """Metrics that a task may use in addition to lm-eval's. ``registered``: metrics
    of user hooks, by name. ``may_execute``: whether scripts of others may run."""

    registered: Mapping[str, Any]
    output_type: str
    may_execute: bool = False

    def find(self, given: Any, arguments: Mapping[str, Any]) -> TaskMetric | None:
        """The metric of an entry; ``None`` if it is lm-eval's. ``given``: a name, or
        the object of ``!function``. Raises EvalsError if the family has no such metric,
        the registered object is not a metric, or it does not accept the arguments."""
        if not isinstance(given, str):
            return self._custom_metric(name_of(given), given, arguments)
        if is_in_family(given):
            return family_metric(given, arguments)
        metric = self._registered(given)
        if metric is None:
            return None
        custom = self._custom_metric(given, metric, arguments)
        if custom is None:
            raise EvalsError(
                f"{given!r} is registered as a metric, but it is {metric!r:.80}\n"
                "  fix: register a function of doc and response, or a SampleLevelMetric"
            )
        return custom

    def _custom_metric(
        self, name: str, metric: Any, arguments: Mapping[str, Any]
    ) -> TaskMetric | None:
        from pytest_evals.scorers.custom_metrics.entry import own_metric

        return own_metric(name, metric, self.output_type, arguments)

    def _registered(self, name: str) -> Any:
        if name in self.registered:
            return self.registered[name]
        if name in METRICS:
            return None
        for entry_point in entry_points(group=ENTRY_POINTS, name=name):
            return load_entry_point(entry_point)
        return None


_FILTERS, _METRICS = "lm_eval.filters", "lm_eval.metrics"
_AGGREGATIONS = "lm_eval.aggregations"
_REGISTRY = "lm_eval.api.registry"


class PluginMetric(NamedTuple):
    """A metric of a distribution. ``aggregation``: its default, ``None`` if
    ``register_metric`` sets none. ``higher_is_better``: its direction, ``None`` if
    ``register_metric`` sets none."""

    function: Callable[..., Any]
    aggregation: Callable[..., Any] | None
    higher_is_better: bool | None


def plugin_filter(name: str) -> Callable[..., Any] | None:
    """The filter of a name, ``None`` if no distribution has it."""
    return None if name in FILTERS else _loaded(_FILTERS, name)


def has_plugin_metric(name: str) -> bool:
    """Whether a distribution has the metric; nothing is imported."""
    return name not in METRICS and name in _found(_METRICS)


def plugin_metric(name: str) -> PluginMetric | None:
    """The metric of a name, ``None`` if no distribution has it."""
    function = None if name in METRICS else _loaded(_METRICS, name)
    if function is None:
        return None
    known = _registered()
    return PluginMetric(
        function,
        known.metric_aggregations.get(name, None),
        known.higher_is_better.get(name, None),
    )


def plugin_aggregation(name: str) -> Callable[..., Any] | None:
    """The aggregation of a name, ``None`` if no distribution has it. Includes those
    that the module of a metric registered."""
    if name in AGGREGATIONS:
        return None
    return _loaded(_AGGREGATIONS, name) or _registered().aggregations.get(name, None)


def _loaded(group: str, name: str) -> Callable[..., Any] | None:
    entry_point = _found(group).get(name)
    if entry_point is None:
        return None
    with _imports():
        loaded = load_entry_point(entry_point)
    if not callable(loaded):
        raise EvalsError(f"{origin_of(entry_point)} is {loaded!r:.80}, not a function")
    function: Callable[..., Any] = loaded
    return function


def _found(group: str) -> Mapping[str, EntryPoint]:
    return _entry_points(group, tuple(sys.path))


@lru_cache
def _entry_points(group: str, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Entry points by name. Cached, since tasks may have thousands of names."""
    found: dict[str, EntryPoint] = {}
    for entry_point in entry_points(group=group):
        found.setdefault(entry_point.name, entry_point)
    return found


@contextmanager
def _imports() -> Iterator[None]:
    """Without lm-eval, imports from it get the shims."""
    from pytest_evals.dialects.lm_eval.modules import has_lm_eval, shim_modules

    if has_lm_eval():
        import_module("lm_eval.api.metrics")  # registers aggregations of metrics
        yield
        return
    modules = shim_modules()
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)


def _registered() -> Registered:
    """Registrations of the decorators of lm-eval, or of their shims."""
    from pytest_evals.dialects.lm_eval.shims.registry import Registered, registered

    registry: Any = sys.modules.get(_REGISTRY)
    if registry is None:
        return registered
    return Registered(
        registry.aggregation_registry,
        registry.metric_agg_registry,
        registry.higher_is_better_registry,
    )
