"""Metric names that do not come from lm-eval: those of families
(``lighteval:rouge_t5``), and those that the user registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from pytest_evals.errors import EvalsError
from pytest_evals.scorers.metrics import METRICS, family_metric, is_in_family

if TYPE_CHECKING:
    from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric

ENTRY_POINTS = "pytest_evals.metrics"
"""Entry point group for custom metrics."""


def name_of(metric: Any) -> str:
    """The name of a function or of an object's class."""
    return str(getattr(metric, "__name__", type(metric).__name__))


def load_entry_point(entry_point: EntryPoint) -> Any:
    """Load an entry point.

    Raises:
        EvalsError: It cannot be loaded; the message names the distribution.
    """
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
        the object of ``!function``.

        Raises:
            EvalsError: The family has no such metric, the registered object is not a
                metric, or it does not accept the arguments.
        """
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
