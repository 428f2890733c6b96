"""What the hooks of users say of tasks, documents and metrics, whoever has registered
them. ``hook`` is pluggy's: ``config.hook`` in pytest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.result import TaskResult
from pytest_evals.core.score import Score
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError
from pytest_evals.run.scoring import score
from pytest_evals.scorers.user_code import UserCode


def registered_metrics(hook: Any, config: Any) -> dict[str, Any]:
    """What ``pytest_evals_register_metrics`` gives names.

    Raises:
        OptionError: Two plugins give one name to different metrics.
    """
    found: dict[str, Any] = {}
    for metrics in hook.pytest_evals_register_metrics(config=config):
        for name, metric in (metrics or {}).items():
            if found.setdefault(name, metric) is not metric:
                raise OptionError(
                    f"pytest_evals_register_metrics: two metrics are called {name!r}"
                )
    return found


def adds_metrics(hook: Any) -> bool:
    """Whether tasks may have metrics that their files do not name."""
    return bool(
        hook.pytest_evals_metrics.get_hookimpls()
        or hook.pytest_evals_score.get_hookimpls()
    )


def prepared(hook: Any, task: Task, records: list[Record]) -> list[Record]:
    """The records to ask, as ``pytest_evals_requests`` has them."""
    asks = hook.pytest_evals_requests
    if not asks.get_hookimpls():
        return records
    changed = asks(task=task, records=[*records])
    return records if changed is None else [*changed]


def scored(hook: Any, record: Record, task: Task) -> Record:
    """The record with the scores of a hook ``pytest_evals_score``, or of its task where
    that says nothing."""

    def by_hook(one: Record) -> tuple[Score, ...]:
        with UserCode("pytest_evals_score"):
            found = hook(record=one, task=task)
        return task.score(one) if found is None else tuple(found)

    return score(record, replace(task, score=by_hook))


def with_added_metrics(hook: Any, result: TaskResult) -> TaskResult:
    """A task with what ``pytest_evals_metrics`` says of it."""
    found: list[MetricResult] = []
    for numbers in hook.pytest_evals_metrics(task=result.task, records=result.records):
        for key, value in (numbers or {}).items():
            name, _, filter_ = key.partition(",")
            known = value if isinstance(value, Estimate) else Estimate(float(value))
            found.append(
                MetricResult(
                    name=name,
                    filter=filter_ or "none",
                    estimate=known,
                    n_scored=len(result.records) - result.n_errored,
                    n_errored=result.n_errored,
                    n_missing=result.n_missing,
                )
            )
    return replace(result, metrics=(*result.metrics, *found))
