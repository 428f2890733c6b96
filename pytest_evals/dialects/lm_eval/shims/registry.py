"""Registration of filters, metrics and aggregations without lm-eval (0.4.13,
``api/registry.py``), and base classes of custom filters (``api/filter.py``,
``filters/extraction.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from pytest_evals.scorers.aggregations import AGGREGATIONS
from pytest_evals.scorers.extraction import MultiChoiceRegex, Regex

T = TypeVar("T")


class Registered(NamedTuple):
    """Aggregations by name; default aggregations and directions by metric."""

    aggregations: dict[str, Callable[..., Any]]
    metric_aggregations: dict[str, Callable[..., Any]]
    higher_is_better: dict[str, bool]


registered = Registered({}, {}, {})
"""As registered by modules of distributions; later registrations replace earlier
ones."""


def register_aggregation(name: str) -> Callable[[T], T]:
    """Decorator that registers an aggregation."""

    def register(function: T) -> T:
        assert callable(function)
        registered.aggregations[name] = function
        return function

    return register


def register_metric(**arguments: Any) -> Callable[[T], T]:
    """Decorator that registers a metric's direction and default aggregation, which must
    be registered before."""

    def register(function: T) -> T:
        metric = arguments["metric"]
        if "higher_is_better" in arguments:
            registered.higher_is_better[metric] = arguments["higher_is_better"]
        if "aggregation" in arguments:
            name = arguments["aggregation"]
            known = registered.aggregations
            is_ours = name not in known and name in AGGREGATIONS
            aggregation = aggregation_function(name) if is_ours else known[name]
            registered.metric_aggregations[metric] = aggregation
        return function

    return register


def aggregation_function(name: str) -> Callable[[Sequence[Any]], float]:
    """An aggregation as a function with lm-eval's name."""
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


class Filter:
    """Base class of lm-eval's filters: ``apply(resps, docs)``."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def apply(self, resps: Any, docs: Any) -> Any:
        """Return the responses unchanged."""
        return resps


class RegexFilter(Regex, Filter):
    """The filter ``regex``, with the attributes that subclasses read."""


class MultiChoiceRegexFilter(MultiChoiceRegex, RegexFilter):
    """The filter ``multi_choice_regex``, with the attributes that subclasses read."""


registered_filters: dict[str, Any] = {}
"""Name → class, as registered by task modules; a later registration replaces it."""


def register_filter(name: str) -> Callable[[Any], Any]:
    """Decorator that registers a filter for ``filter_list``."""

    def register(cls: Any) -> Any:
        registered_filters[name] = cls
        return cls

    return register
