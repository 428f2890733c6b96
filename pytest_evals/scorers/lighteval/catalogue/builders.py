"""How metrics of a name are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.scorers.lighteval.metric import (
    CorpusLevelMetric,
    Metric,
    MetricGrouping,
    SampleLevelMetric,
    SampleLevelMetricGrouping,
    SamplingMethod,
)
from pytest_evals.scorers.lighteval.reductions import mean

Maker = Callable[[], Metric]
"""What makes a metric."""


TEXT, CHOICES = SamplingMethod.GENERATIVE, SamplingMethod.LOGPROBS


ROLLING = SamplingMethod.PERPLEXITY


def sample(
    name: str, computation: Any, category: SamplingMethod = TEXT
) -> SampleLevelMetric:
    """A metric of one number, whose mean counts."""
    return SampleLevelMetric(name, True, category, computation, mean)


def group(
    names: list[str],
    computation: Any,
    down: tuple[str, ...] = (),
    how: Mapping[str, Any] | None = None,
    category: SamplingMethod = TEXT,
    made: type[MetricGrouping] = SampleLevelMetricGrouping,
) -> MetricGrouping:
    """A metric of several numbers.

    Args:
        names: Their names.
        computation: What measures a document.
        down: Those of which less is better.
        how: Aggregation of each; the mean by default.
        category: Kind of requests.
        made: Its class.
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
    """A metric of all documents together."""
    return CorpusLevelMetric(name, True, category, preparator, how)
