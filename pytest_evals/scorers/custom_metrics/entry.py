"""Custom metrics in task files: objects of :mod:`.metric`, and functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.core.task import REASONING_TAGS
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.custom_metrics.aggregation import mean
from pytest_evals.scorers.custom_metrics.metric import Metric, SamplingMethod
from pytest_evals.scorers.custom_metrics.task_metric import REQUIRED_METHOD, TaskMetric


def own_metric(
    name: str, given: Any, output_type: str, arguments: Mapping[str, Any]
) -> TaskMetric | None:
    """Return a custom metric: an object of :mod:`.metric`, or a function of ``doc`` and
    ``response``; ``None`` for anything else. ``name``: its name, if it is a function.
    Raises EvalsError if an argument is unknown or invalid, or a field has an invalid
    type."""
    made = given
    if not isinstance(given, Metric):
        category = REQUIRED_METHOD.get(output_type)
        if category is None or not _takes_document(given):
            return None
        made = Metric(name, True, category, given, mean)
    check_fields(made)
    return with_arguments(made, dict(arguments))


def with_arguments(metric: Metric, params: dict[str, Any]) -> TaskMetric:
    """Return the metric with its arguments and the keys that all entries have. Raises
    EvalsError if an argument is unknown or invalid."""
    tags = REASONING_TAGS if pop_flag(params, "remove_reasoning_tags") else ()
    query = params.pop("unconditioned_query", None)
    made = TaskMetric(metric(params), tags, query or "")
    if query is not None and not (isinstance(query, str) and made.needs_unconditioned):
        raise EvalsError(
            "unconditioned_query must be a string, and requires a metric with "
            "logprob_normalization: pmi"
        )
    return made


def pop_flag(params: dict[str, Any], name: str) -> bool:
    """Remove a flag from the arguments of an entry; return it. Raises EvalsError if it
    is neither true nor false."""
    given = params.pop(name, False)
    if not isinstance(given, bool):
        raise EvalsError(f"{name} must be true or false, not {given!r}")
    return given


def _takes_document(given: Any) -> bool:
    method = getattr(given, "compute", None)
    if callable(method) and not isinstance(given, type):
        given = method
    try:
        first = list(inspect.signature(given).parameters)[:2]
    except (TypeError, ValueError):
        return False
    return first in (["doc", "response"], ["doc", "model_response"])


def check_fields(metric: Metric) -> None:
    """Check the types of a metric's fields. Raises EvalsError if a field has an invalid
    type; the message names the field."""
    for field, expected in _faults(metric):
        of = "" if field == "metric_name" else f" of {metric.metric_name!r:.80}"
        given = f"{getattr(metric, field)!r:.80}"
        raise EvalsError(f"{field}{of} must be {expected}, not {given}")


def _faults(metric: Metric) -> Iterator[tuple[str, str]]:
    """Yield fields with an invalid type, and the expected type."""
    name, how = metric.metric_name, metric.corpus_level_fn
    names = [*name] if isinstance(name, list | tuple | set | dict) else [name]
    if not names or not all(isinstance(one, str) and one for one in names):
        yield "metric_name", "a string or a list of strings"
    directions = _values(metric.higher_is_better)
    if not all(isinstance(one, bool | None) for one in directions):
        yield "higher_is_better", "True, False, None or a mapping of names to these"
    if not isinstance(metric.category, SamplingMethod):
        yield "category", "a SamplingMethod such as SamplingMethod.GENERATIVE"
    if not _is_callable(metric.sample_level_fn, "compute", "prepare"):
        expected = "a function, or an object with compute() or prepare()"
        yield "sample_level_fn", expected
    if not all(
        _is_callable(one, "aggregation", "compute_corpus") for one in _values(how)
    ):
        expected = "a function, an object with compute_corpus(), or a mapping of these"
        yield "corpus_level_fn", expected
    elif isinstance(how, Mapping) and not set(metric.names) <= how.keys():
        yield "corpus_level_fn", "a mapping with all names of the metric"


def _values(given: Any) -> list[Any]:
    """Return the values of a mapping, else a list of the single value."""
    return [*given.values()] if isinstance(given, Mapping) else [given]


def _is_callable(given: Any, *methods: str) -> bool:
    return any(map(callable, (given, *(getattr(given, one, None) for one in methods))))
