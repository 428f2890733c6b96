"""Functions of lm-eval's ``api/metrics.py`` (0.4.13) that tasks import: aggregations,
and the maximum over several references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pytest_evals.scorers.aggregations import AGGREGATIONS


def aggregation_function(name: str) -> Callable[[Sequence[Any]], float]:
    """An aggregation as a function with lm-eval's name.

    Raises:
        UnknownNameError: The name is not registered.
    """
    aggregation = AGGREGATIONS[name]

    def aggregate(arr: Sequence[Any]) -> float:
        return aggregation.value(aggregation.read(arr))

    aggregate.__name__ = aggregate.__qualname__ = name
    # Functions of this module get lm-eval's standard error.
    aggregate.__module__ = "lm_eval.api.metrics"
    return aggregate


mean = aggregation_function("mean")
median = aggregation_function("median")
perplexity = aggregation_function("perplexity")
weighted_perplexity = aggregation_function("weighted_perplexity")


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], Any], prediction: Any, ground_truths: Iterable[Any]
) -> Any:
    """Maximum of the metric's values over all references."""
    return max(metric_fn(prediction, reference) for reference in ground_truths)


def weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> Any:
    """F1 score of pairs of label and answer, weighted by label frequency."""
    from sklearn.metrics import f1_score

    golds, answers = zip(*items, strict=True)
    return f1_score(golds, answers, average="weighted")
