"""Read eval files in any dialect: single files and folders, without pytest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from pytest_evals.core.group import Group
from pytest_evals.core.registry import Registry
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.detect import GATES_FILES, YAML_SUFFIXES, dialect_of
from pytest_evals.errors import Place, Problem, TaskFileError

Reader = Callable[[Path, TaskOptions], Sequence[Task | Group]]

READERS: Registry[Reader] = Registry(
    "dialect",
    {
        "latticeflow": "pytest_evals.dialects.latticeflow.loader:load_tasks",
        "lm_eval": "pytest_evals.dialects.lm_eval.task:load_tasks",
        "lighteval": "pytest_evals.dialects.lighteval.tasks:load_tasks",
        "native": "pytest_evals.dialects.native.eval_file:load_tasks",
    },
)
"""Dialect → what reads the tasks and groups of a file.

Raises ``TaskFileError`` with all problems of the file.
"""

PYTHON_FILES = ("eval_*.py", "*_eval.py")
"""Names of task modules that are taken when only their folder is named."""
_PASSED_BY = (".*", "__pycache__", "build", "dist", "node_modules", "venv")


def load_file(path: Path, options: TaskOptions) -> Sequence[Task | Group]:
    """The tasks and groups of a file, in whichever dialect it is.

    Raises:
        TaskFileError: With all problems of the file; or nobody reads it.
    """
    name = _dialect(path)
    if not name:
        raise TaskFileError([_refusal(path)])
    return READERS[name](path, options)


def _refusal(path: Path) -> Problem:
    """Why nobody reads a file."""
    from pytest_evals.dialects.lookalikes import lookalike

    if path.is_file() and (lost := lookalike(path, path.read_bytes())):
        return lost
    what = "there is no such file" if not path.is_file() else "this is no eval file"
    fix = "name files with tasks or groups, or folders that hold some"
    return Problem(what, Place(path), fix)


def lost_files(folder: Path) -> Iterator[Problem]:
    """The files below a folder that look like eval files and are not read as such."""
    from pytest_evals.dialects.lookalikes import is_included, lookalike

    for path in _files(folder):
        if path.suffix.lower() not in YAML_SUFFIXES or path.name in GATES_FILES:
            continue
        lost = lookalike(path, path.read_bytes())
        if lost is not None and not is_included(path, _files(folder)):
            yield lost


def load_group(path: Path, options: TaskOptions) -> Sequence[Task | Group]:
    """What a group file of lm-eval defines, whatever the options select.

    Raises:
        TaskFileError: With all problems of the file.
    """
    whole = TaskOptions()
    options = replace(options, takes=whole.takes, variants=whole.variants)
    return READERS["lm_eval"](path, options)


def load_folder(
    folder: Path,
    options: TaskOptions,
    first: Callable[[Path], Sequence[Task | Group] | None],
) -> Iterator[Task | Group]:
    """The tasks and groups of all eval files below a folder.

    Args:
        folder: The folder.
        options: What to change in every task.
        first: Sees each file before, and reads it unless it gives ``None``.

    Raises:
        TaskFileError: With all problems of a file.
    """
    for path in _files(folder):
        found = first(path)
        if found is None:
            found = load_file(path, options) if _is_taken(path, folder) else ()
        yield from found


def eval_files(folder: Path) -> Iterator[Path]:
    """All eval files below a folder, in the order of their names."""
    yield from (path for path in _files(folder) if _is_taken(path, folder))


def is_passed_by(path: Path) -> bool:
    """Whether a file or folder is left out when the folder around it is named."""
    return any(fnmatch(path.name, pattern) for pattern in _PASSED_BY)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if is_passed_by(path):
            continue
        if os.path.isdir(path):
            yield from _files(path)
        else:
            yield path


def _is_taken(path: Path, folder: Path) -> bool:
    """Whether a file is run that only the name of its folder, or of one above, stands
    for."""
    name = _dialect(path)
    if name == "latticeflow":
        from pytest_evals.dialects.latticeflow.loader import is_left_to_a_run

        return not is_left_to_a_run(path, folder)
    return bool(name) and (path.suffix != ".py" or _is_named_like_one(path))


def _is_named_like_one(path: Path) -> bool:
    return any(fnmatch(path.name, pattern) for pattern in PYTHON_FILES)


def _dialect(path: Path) -> str:
    return dialect_of(path) if os.path.isfile(path) else ""
