"""The metrics that a user's hook adds to those of a task."""

from __future__ import annotations

import pytest

from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.result import TaskResult

__all__ = ["added_metrics"]


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
