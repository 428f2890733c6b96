"""Functions of lm-eval's ``api/metrics.py`` (0.4.13) that tasks import: aggregations,
and the best of several references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pytest_evals.scorers.aggregations import AGGREGATIONS


def aggregation_called(name: str, of: str = "") -> Callable[[Sequence[Any]], float]:
    """An aggregation as a function.

    Args:
        name: What lm-eval calls the function.
        of: What task files call the aggregation, if that is something else.

    Raises:
        UnknownNameError: There is none of that name.
    """
    known = AGGREGATIONS[of or name]

    def aggregate(arr: Sequence[Any]) -> float:
        return known.value(known.read(arr))

    aggregate.__name__ = aggregate.__qualname__ = name
    # What comes from that module has lm-eval's standard error.
    aggregate.__module__ = "lm_eval.api.metrics"
    return aggregate


mean = aggregation_called("mean")
median = aggregation_called("median")
perplexity = aggregation_called("perplexity")
weighted_perplexity = aggregation_called("weighted_perplexity")


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], Any], prediction: Any, ground_truths: Iterable[Any]
) -> Any:
    """The best of the metric's values over all right answers."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)


def weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> Any:
    """F1 of each label, weighted by its frequency; of pairs of label and answer."""
    from sklearn.metrics import f1_score

    golds, answers = zip(*items, strict=True)
    return f1_score(golds, answers, average="weighted")
