"""Files and lines of the rows of a task, at which editors open its documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.pathlib import bestrelpath

from pytest_evals.core.task import Task

_VS_CODE = "vscode_pytest"
"""Plugin of VS Code, which opens the file of a test's node at the line of the test."""


class LinesOfTask(NamedTuple):
    """Where the rows of a task are: a file relative to the rootdir, and the line of
    each row, counted from 0; no lines if the line of the task is used."""

    file: str
    lines: Sequence[int]


def lines_of(task: Task, path: Path, nodeid: str, config: pytest.Config) -> LinesOfTask:
    """Return where the rows of a task are. For VS Code, rows of another file than that
    of the task have the line of the task.

    Args:
        path: The file of the task's node.
        nodeid: The node's id.
    """
    file, numbers = task.row_lines() if task.row_lines is not None else (path, ())
    lines = tuple(number - 1 for number in numbers)
    if file == path or not lines or config.pluginmanager.hasplugin(_VS_CODE):
        return LinesOfTask(nodeid, lines if file == path else ())
    return LinesOfTask(bestrelpath(config.rootpath, file), lines)
