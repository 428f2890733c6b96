"""Calls to user hooks before documents are sent. ``hook`` is pluggy's: ``config.hook``
in pytest."""

from __future__ import annotations

from typing import Any

from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError


def registered_metrics(hook: Any, config: Any) -> dict[str, Any]:
    """The metrics of ``pytest_evals_register_metrics``, by name.

    Raises:
        OptionError: Two plugins register different metrics under one name.
    """
    registered: dict[str, Any] = {}
    for metrics in hook.pytest_evals_register_metrics(config=config):
        for name, metric in (metrics or {}).items():
            if registered.setdefault(name, metric) is not metric:
                raise OptionError(
                    f"pytest_evals_register_metrics: two metrics are called {name!r}"
                )
    return registered


def adds_metrics(hook: Any) -> bool:
    """Whether tasks may have metrics that their files do not name."""
    return bool(
        hook.pytest_evals_metrics.get_hookimpls()
        or hook.pytest_evals_score.get_hookimpls()
    )


def prepared(hook: Any, task: Task, records: list[Record]) -> list[Record]:
    """The records to send, as returned by ``pytest_evals_requests``."""
    asks = hook.pytest_evals_requests
    if not asks.get_hookimpls():
        return records
    changed = asks(task=task, records=[*records])
    return records if changed is None else [*changed]
