"""The metrics of a user's hooks: those that have a name in task files, and those that
are added to a finished task."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.result import TaskResult

__all__ = ["added_metrics", "registered_metrics"]


def registered_metrics(config: pytest.Config) -> dict[str, Any]:
    """What ``pytest_evals_register_metrics`` gives names.

    Raises:
        pytest.UsageError: Two plugins give one name to different metrics.
    """
    found: dict[str, Any] = {}
    for metrics in config.hook.pytest_evals_register_metrics(config=config):
        for name, metric in (metrics or {}).items():
            if found.setdefault(name, metric) is not metric:
                raise pytest.UsageError(
                    f"pytest_evals_register_metrics: two metrics are called {name!r}"
                )
    return found


def added_metrics(config: pytest.Config, result: TaskResult) -> list[MetricResult]:
    """What ``pytest_evals_metrics`` says of a task."""
    found: list[MetricResult] = []
    hook = config.hook.pytest_evals_metrics
    for numbers in hook(task=result.task, records=result.records):
        for key, value in (numbers or {}).items():
            name, _, filter_ = key.partition(",")
            known = value if isinstance(value, Estimate) else Estimate(float(value))
            found.append(
                MetricResult(
                    name=name,
                    filter=filter_ or "none",
                    estimate=known,
                    n_scored=len(result.records) - result.n_errored,
                    n_errored=result.n_errored,
                    n_missing=result.n_missing,
                )
            )
    return found
