"""The types of the fields of a metric: metrics come from task modules and plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.errors import EvalsError
from pytest_evals.scorers.lighteval.metric import Metric, SamplingMethod


def check_fields(metric: Metric) -> None:
    """Make sure that the fields of a metric have types that can be used.

    Raises:
        EvalsError: One has not; the message names it.
    """
    for field, wanted in _faults(metric):
        of = "" if field == "metric_name" else f" of {metric.metric_name!r:.80}"
        given = f"{getattr(metric, field)!r:.80}"
        raise EvalsError(f"{field}{of} is {wanted}, not {given}")


def _faults(metric: Metric) -> Iterator[tuple[str, str]]:
    """Fields with another type, and what is expected there."""
    name, how = metric.metric_name, metric.corpus_level_fn
    names = [*name] if isinstance(name, list | tuple | set | dict) else [name]
    if not names or not all(isinstance(one, str) and one for one in names):
        yield "metric_name", "a text or a list of texts"
    directions = _values(metric.higher_is_better)
    if not all(isinstance(one, bool | None) for one in directions):
        yield "higher_is_better", "True, False, None or a mapping of names to these"
    if not isinstance(metric.category, SamplingMethod):
        yield "category", "a SamplingMethod such as SamplingMethod.GENERATIVE"
    if not _can(metric.sample_level_fn, "compute", "prepare"):
        wanted = "a function, or an object with compute() or prepare()"
        yield "sample_level_fn", wanted
    if not all(_can(one, "aggregation", "compute_corpus") for one in _values(how)):
        wanted = "a function, an object with compute_corpus(), or a mapping of these"
        yield "corpus_level_fn", wanted
    elif isinstance(how, Mapping) and not set(metric.names) <= how.keys():
        yield "corpus_level_fn", "a mapping with all names of the metric"


def _values(given: Any) -> list[Any]:
    """The values of a mapping from names, else the one for all of them."""
    return [*given.values()] if isinstance(given, Mapping) else [given]


def _can(given: Any, *methods: str) -> bool:
    """Whether it can be called, or has one of the methods."""
    return callable(given) or any(
        callable(getattr(given, one, None)) for one in methods
    )
