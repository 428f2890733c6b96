"""The family ``lighteval:`` of metrics in task files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.core.registry import Registry
from pytest_evals.guests.lighteval.metrics.catalogue.names import CATALOGUE, PUBLISHED
from pytest_evals.scorers.custom_metrics.entry import pop_flag, with_arguments
from pytest_evals.scorers.custom_metrics.metric import Metric
from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric


def lighteval_metric(name: str, arguments: Mapping[str, Any]) -> TaskMetric:
    """Return a metric by its name in lighteval. ``published: true`` among its arguments
    reproduces lighteval's bugs."""
    params = dict(arguments)
    makers = PUBLISHED if pop_flag(params, "published") else CATALOGUE
    known: Registry[Callable[[], Metric]] = Registry("lighteval metric", makers)
    return with_arguments(known[name.removeprefix("lighteval:")](), params)
