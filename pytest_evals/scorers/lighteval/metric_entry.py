"""A metric of a task file: lighteval's, by name, or one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.core.registry import Registry
from pytest_evals.core.task import REASONING_TAGS
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.lighteval.metric import Metric
from pytest_evals.scorers.lighteval.metric_fields import check_fields
from pytest_evals.scorers.lighteval.reductions import mean
from pytest_evals.scorers.lighteval.task_metric import REQUIRED_METHOD, TaskMetric


def lighteval_metric(name: str, arguments: Mapping[str, Any]) -> TaskMetric:
    """A metric of lighteval's.

    Args:
        name: Its name there, with or without the prefix.
        arguments: What it is made with. ``published: true`` computes it as lighteval
            does also where that is a mistake.

    Raises:
        UnknownNameError: lighteval has no such metric.
        EvalsError: The metric has no such argument, or not such a value.
    """
    from pytest_evals.scorers.lighteval.catalogue.names import CATALOGUE, PUBLISHED

    params = dict(arguments)
    makers = PUBLISHED if _flag(params, "published") else CATALOGUE
    known: Registry[Callable[[], Metric]] = Registry("metric of lighteval", makers)
    return _with_arguments(known[name.removeprefix("lighteval:")](), params)


def own_metric(
    name: str, given: Any, output_type: str, arguments: Mapping[str, Any]
) -> TaskMetric | None:
    """A metric of the user's: an object of :mod:`.metric`, or a function of ``doc`` and
    ``response``; ``None`` for anything else.

    Args:
        name: Its name, if it is a function.
        given: What the user's module has.
        output_type: The task's.
        arguments: What it is made with.

    Raises:
        EvalsError: The metric has no such argument, or not such a value; or a field of
            it has another type.
    """
    made = given
    if not isinstance(given, Metric):
        category = REQUIRED_METHOD.get(output_type)
        if category is None or not _takes_document(given):
            return None
        made = Metric(name, True, category, given, mean)
    check_fields(made)
    return _with_arguments(made, dict(arguments))


def _with_arguments(metric: Metric, params: dict[str, Any]) -> TaskMetric:
    """The metric with the keys that all entries share."""
    tags = REASONING_TAGS if _flag(params, "remove_reasoning_tags") else ()
    query = params.pop("unconditioned_query", None)
    made = TaskMetric(metric(params), tags, query or "")
    if query is not None and not (isinstance(query, str) and made.needs_unconditioned):
        raise EvalsError(
            "unconditioned_query is a text, for metrics with logprob_normalization: pmi"
        )
    return made


def _flag(params: dict[str, Any], name: str) -> bool:
    given = params.pop(name, False)
    if not isinstance(given, bool):
        raise EvalsError(f"{name} is true or false, not {given!r}")
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
