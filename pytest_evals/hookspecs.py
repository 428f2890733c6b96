"""Hooks that a conftest.py or another plugin may implement.

This module is loaded in every pytest run of the environment. When pytest is not
running, ``config`` is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import pytest

    from pytest_evals.core.metric import Estimate
    from pytest_evals.core.model import ModelLike
    from pytest_evals.core.record import Record, Score
    from pytest_evals.core.result import RunResult
    from pytest_evals.core.task import Group, Task

hookspec = pluggy.HookspecMarker("pytest")


@hookspec(firstresult=True)
def pytest_evals_load_tasks(
    path: Path, config: pytest.Config
) -> Sequence[Task | Group] | None:
    """Return the tasks and groups of a file in a custom dialect, or ``None`` to ignore
    it.

    Called for every collected file; check the file name first.
    """


@hookspec(firstresult=True)
def pytest_evals_open_model(spec: str, config: pytest.Config) -> ModelLike | None:
    """Open the model for a spec; return ``None`` to use the model kind in the spec.

    Called once for each spec, possibly before the run; check the spec first.

    Args:
        spec: Value of ``--model``: ``KIND:TARGET[,NAME=VALUE…]``.
        config: pytest's configuration.
    """


@hookspec(firstresult=True)
def pytest_evals_requests(task: Task, records: list[Record]) -> Sequence[Record] | None:
    """Inspect or change the requests of a task before they are sent.

    Called once for each task and window. Return replacement records, or ``None``.
    Records are frozen: change one with ``dataclasses.replace``.
    """


@hookspec(firstresult=True)
def pytest_evals_score(record: Record, task: Task) -> Sequence[Score] | None:
    """Score a document with custom code; return ``None`` to use the task's scorer.

    Raise ``pytest_evals.DocumentError`` for a document that cannot be scored.
    """


@hookspec
def pytest_evals_register_metrics(config: pytest.Config) -> Mapping[str, object] | None:
    """Return custom metrics for ``metric:`` in task files, by name.

    Each is a function of ``doc`` and ``response``, whose values are averaged; or a
    ``pytest_evals.SampleLevelMetric`` or ``CorpusLevelMetric``.
    """


@hookspec
def pytest_evals_metrics(
    task: Task, records: Sequence[Record]
) -> Mapping[str, float | Estimate] | None:
    """Return additional metrics of a task: ``{"mean_length": 12.3}``.

    Args:
        task: The task, after all its documents.
        records: Its documents with requests, responses and scores, in dataset order.
    """


@hookspec
def pytest_evals_result(result: RunResult) -> None:
    """Process the result of a finished run, for example log it elsewhere."""
