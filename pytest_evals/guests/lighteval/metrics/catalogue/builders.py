"""Builders of metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.scorers.custom_metrics.aggregation import mean
from pytest_evals.scorers.custom_metrics.metric import (
    CorpusLevelMetric,
    Metric,
    MetricGrouping,
    SampleLevelMetric,
    SampleLevelMetricGrouping,
    SamplingMethod,
)

Maker = Callable[[], Metric]


TEXT, CHOICES = SamplingMethod.GENERATIVE, SamplingMethod.LOGPROBS


ROLLING = SamplingMethod.PERPLEXITY


def sample(
    name: str, computation: Any, category: SamplingMethod = TEXT
) -> SampleLevelMetric:
    """Build a metric with one number, aggregated by the mean."""
    return SampleLevelMetric(name, True, category, computation, mean)


def group(
    names: list[str],
    computation: Any,
    down: tuple[str, ...] = (),
    how: Mapping[str, Any] | None = None,
    category: SamplingMethod = TEXT,
    made: type[MetricGrouping] = SampleLevelMetricGrouping,
) -> MetricGrouping:
    """Build a metric with several numbers.

    Args:
        down: Names for which lower is better.
        how: Aggregation by name; the mean by default.
    """
    return made(
        names,
        {name: name not in down for name in names},
        category,
        computation,
        dict(how or dict.fromkeys(names, mean)),
    )


def corpus(
    name: str, preparator: Any, how: Any, category: SamplingMethod = CHOICES
) -> CorpusLevelMetric:
    """Build a corpus metric."""
    return CorpusLevelMetric(name, True, category, preparator, how)
