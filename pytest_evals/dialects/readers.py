"""Reads eval files of all dialects: single files and folders, without pytest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evals.core.registry import DIALECTS, Registry
from pytest_evals.core.task import Group, SuiteFiles, Task, TaskOptions
from pytest_evals.dialects.detect import GATES_FILES, dialect_of
from pytest_evals.errors import Place, Problem, TaskFileError

if TYPE_CHECKING:
    from pytest_evals.dialects.lookalikes import Lookalike

Reader = Callable[[Path, TaskOptions], Sequence[Task | Group]]

READERS: Registry[Reader] = Registry(
    "dialect",
    {
        "lm_eval": "pytest_evals.dialects.lm_eval.task:load_tasks",
        "native": "pytest_evals.dialects.native.eval_file:load_tasks",
        **DIALECTS,
    },
)
"""Dialect → reader of the tasks and groups of a file.

Raises ``TaskFileError`` with all problems of the file.
"""

PYTHON_FILES = ("eval_*.py", "*_eval.py")
"""Names of task modules that are read if only their folder is named."""
_SKIPPED = (".*", "__pycache__", "build", "dist", "node_modules", "venv")


def load_file(path: Path, options: TaskOptions) -> Sequence[Task | Group]:
    """Return the tasks and groups of a file of any dialect. Raises TaskFileError with
    all problems of the file; or its dialect is unknown."""
    name = _dialect(path)
    if not name:
        raise TaskFileError([_refusal(path)])
    return READERS[name](path, options)


def _refusal(path: Path) -> Problem:
    from pytest_evals.dialects.lookalikes import lookalike

    if path.is_file() and (ignored := lookalike(path)):
        return ignored.problem
    message = "file not found" if not path.is_file() else "this is not an eval file"
    fix = "name files with tasks or groups, or folders that contain some"
    return Problem(message, Place(path), fix)


def ignored_files(folder: Path) -> Iterator[Lookalike]:
    """Yield the files below a folder that resemble eval files and are not read."""
    from pytest_evals.dialects.lookalikes import is_included, lookalike

    for path in _files(folder):
        ignored = None if path.name in GATES_FILES else lookalike(path)
        if ignored is not None and not is_included(path, _files(folder)):
            yield ignored


def load_group(path: Path, options: TaskOptions) -> Sequence[Task | Group]:
    """Return the definitions of an lm-eval group file, independent of the selection."""
    defaults = TaskOptions()
    options = replace(options, takes=defaults.takes, variants=defaults.variants)
    return READERS["lm_eval"](path, options)


def load_folder(
    folder: Path,
    options: TaskOptions,
    first: Callable[[Path], Sequence[Task | Group] | None],
) -> Iterator[Task | Group]:
    """Yield the tasks and groups of all eval files below a folder. ``first`` is
    called first for each file; reads it unless it returns ``None``."""
    options = replace(options, files=SuiteFiles(collected=lambda: (folder,)))
    for path in _files(folder):
        loaded = first(path)
        if loaded is None:
            loaded = load_file(path, options) if _is_selected(path) else ()
        yield from loaded


def eval_files(folder: Path) -> Iterator[Path]:
    """Yield all eval files below a folder, sorted by name."""
    yield from (path for path in _files(folder) if _is_selected(path))


def is_skipped(path: Path) -> bool:
    """Return whether a file or folder is skipped when its parent folder is named."""
    return any(fnmatch(path.name, pattern) for pattern in _SKIPPED)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if is_skipped(path):
            continue
        if os.path.isdir(path):
            yield from _files(path)
        else:
            yield path


def _is_selected(path: Path) -> bool:
    """Return whether a file runs if only its folder, or one above, is named."""
    name = _dialect(path)
    is_named = any(fnmatch(path.name, pattern) for pattern in PYTHON_FILES)
    return bool(name) and (path.suffix != ".py" or is_named)


def _dialect(path: Path) -> str:
    return dialect_of(path) if os.path.isfile(path) else ""
