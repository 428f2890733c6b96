"""Aggregation of a metric's values: the mean, a built-in class, or a function of a task
module."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.scorers.aggregations import AGGREGATIONS, Aggregation, from_function
from pytest_evals.scorers.custom_metrics.metric import CorpusLevelComputation, Metric
from pytest_evals.stats import averages


class GenerativeCorpusMetricInput(NamedTuple):
    """References and answers."""

    golds: Any
    preds: Any


class NamedPair(GenerativeCorpusMetricInput):
    """A pair with the field names of all types; pairs that were sent between processes
    have lost their own."""

    __slots__ = ()

    @property
    def logprobs(self) -> Any:
        """Return the first value."""
        return self[0]

    @property
    def weights(self) -> Any:
        """Return the second value."""
        return self[1]


def mean(values: Sequence[float]) -> float:
    """Return the mean; NaN for no values, like NumPy."""
    return averages.mean(values) if len(values) else math.nan


def aggregations_of(metric: Metric) -> Iterator[tuple[str, Aggregation]]:
    """Yield the aggregation of each number of a metric."""
    for name, how in metric.get_corpus_aggregations().items():
        yield name, _aggregation(metric, name, how)


def _aggregation(metric: Metric, name: str, how: Any) -> Aggregation:
    home = getattr(how, "__self__", None)  # earlier releases pass a bound method
    how = home if isinstance(home, CorpusLevelComputation) else how
    made = getattr(how, "aggregation", None)
    if callable(made):
        found: Aggregation = made()
        return found
    if isinstance(how, str):
        return AGGREGATIONS[how]
    module = getattr(how, "__module__", "").partition(".")[0]
    if how is mean or (module, getattr(how, "__name__", "")) in _LIBRARY_MEANS:
        return AGGREGATIONS["mean"]
    return from_function(_corpus_function(metric, name, how))


_LIBRARY_MEANS = (("numpy", "mean"), ("statistics", "mean"), ("statistics", "fmean"))


def _corpus_function(
    metric: Metric, name: str, how: Any
) -> Callable[[Sequence[Any]], Any]:
    """Return the function of a task module. It gets prepared values with lighteval's
    field names, even if they were sent between processes."""
    is_object = callable(getattr(how, "compute_corpus", None))
    function = how.compute_corpus if is_object else how
    prepare = metric.sample_level_fn
    keeps = hasattr(prepare, "prepare") or getattr(prepare, "__name__", "") == "prepare"

    def aggregate(values: Sequence[Any]) -> Any:
        found = function([*map(_kept, values)] if keeps else values)
        return found[name] if is_object and isinstance(found, Mapping) else found

    aggregate.__name__ = getattr(how, "__name__", type(how).__name__)
    aggregate.__module__ = getattr(how, "__module__", aggregate.__module__)
    return aggregate


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return _Record(value)
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return NamedPair(*value) if is_pair else value


class _Record(dict[str, Any]):
    """The fields of a module's own record, as attributes too."""

    def __getattr__(self, name: str) -> Any:
        """Return a field."""
        if name not in self:
            raise AttributeError(f"the record has no field {name!r}")
        return self[name]
