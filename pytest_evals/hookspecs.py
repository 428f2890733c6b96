"""The hooks that a conftest.py or another plugin may implement.

This module is loaded in every pytest run of the environment; without pytest, ``config``
is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import pytest

    from pytest_evals.core.group import Group
    from pytest_evals.core.metric import Estimate
    from pytest_evals.core.model import ModelLike
    from pytest_evals.core.record import Record, Score
    from pytest_evals.core.result import RunResult
    from pytest_evals.core.task import Task

hookspec = pluggy.HookspecMarker("pytest")


@hookspec(firstresult=True)
def pytest_evals_load_tasks(
    path: Path, config: pytest.Config
) -> Sequence[Task | Group] | None:
    """Read another dialect: the tasks and groups of a file, or ``None`` if it is not
    yours.

    Called for every file that is collected; look at the name first.
    """


@hookspec(firstresult=True)
def pytest_evals_open_model(spec: str, config: pytest.Config) -> ModelLike | None:
    """Open the model that a spec names; ``None`` leaves it to the spec's own kind.

    Called once a spec, and possibly before the run: look at the spec first.

    Args:
        spec: What ``--model`` says: ``KIND:TARGET[,NAME=VALUE…]``.
        config: pytest's configuration.
    """


@hookspec(firstresult=True)
def pytest_evals_requests(task: Task, records: list[Record]) -> Sequence[Record] | None:
    """See or change what a task asks, before the batch runs.

    Called once a task and window. Return records to ask instead, or ``None``. Records
    are frozen: change one with ``dataclasses.replace``.
    """


@hookspec(firstresult=True)
def pytest_evals_score(record: Record, task: Task) -> Sequence[Score] | None:
    """Score a document in one's own way, or ``None`` for the task's own scorer.

    Raise ``pytest_evals.DocumentError`` for a document that cannot be scored.
    """


@hookspec
def pytest_evals_register_metrics(config: pytest.Config) -> Mapping[str, object] | None:
    """Give metrics of your own names that ``metric:`` of a task file may use.

    Each is a function of ``doc`` and ``response``, whose values are averaged; or a
    ``pytest_evals.SampleLevelMetric`` or ``CorpusLevelMetric``.
    """


@hookspec
def pytest_evals_metrics(
    task: Task, records: Sequence[Record]
) -> Mapping[str, float | Estimate] | None:
    """Add numbers to a task's metrics: ``{"mean_length": 12.3}``.

    Args:
        task: The task, all its documents done.
        records: Its documents with requests, responses and scores, in dataset order.
    """


@hookspec
def pytest_evals_result(result: RunResult) -> None:
    """Log the finished run elsewhere."""
