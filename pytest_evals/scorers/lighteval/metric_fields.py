"""Validation of the fields of metrics from task modules and plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.errors import EvalsError
from pytest_evals.scorers.lighteval.metric import Metric, SamplingMethod


def check_fields(metric: Metric) -> None:
    """Check the types of a metric's fields.

    Raises:
        EvalsError: A field has an invalid type; the message names the field.
    """
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
    """Return whether an object is callable or has one of the methods."""
    return callable(given) or any(
        callable(getattr(given, one, None)) for one in methods
    )
