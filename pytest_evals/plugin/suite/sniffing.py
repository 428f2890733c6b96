"""Is this file one of ours? Asked of every file that pytest walks over, so it reads a
few bytes and parses nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.plugin.settings.options import OPTIONS

__all__ = [
    "is_eval_file",
    "is_test_file",
    "looks_like_latticeflow",
    "looks_like_lighteval",
    "looks_like_lm_eval",
    "matches",
    "named_places",
    "raw_of",
]

OURS = "pytest_evals.plugin.hooks"
"""The module of our own hooks."""

LARGEST = 4 * 1024 * 1024
"""Bytes; a file beyond this is data, not a task."""


def is_eval_file(path: Path, hook: Any, config: pytest.Config) -> bool:
    """Whether a front end of ours, or a user's, may read this file.

    Args:
        path: The file.
        hook: pytest's hooks, as the file's folder sees them.
        config: pytest's configuration.
    """
    return (
        looks_like_lm_eval(path)
        or looks_like_latticeflow(path)
        or looks_like_lighteval(path, config)
        or _others_read(path, hook, config)
    )


def looks_like_lm_eval(path: Path) -> bool:
    """Whether the top-level keys of a YAML file are those of lm-eval."""
    return _dialect(path) == "lm_eval"


def looks_like_latticeflow(path: Path) -> bool:
    """Whether the top-level keys of a YAML file are those of LatticeFlow's tasks or
    run files."""
    return _dialect(path) == "latticeflow"


def _dialect(path: Path) -> str | None:
    if path.suffix not in (".yaml", ".yml"):
        return None
    from pytest_evals.dialects.file_markers import dialect

    return dialect(raw_of(path))


def looks_like_lighteval(path: Path, config: pytest.Config) -> bool:
    """Whether a Python file has a table of lighteval's tasks. Only those that
    ``evals_python_files`` names are looked at, and those that the command line names,
    unless they are tests."""
    if path.suffix != ".py":
        return False
    patterns = config.stash[OPTIONS].python_files
    if not matches(path, patterns) and (
        is_test_file(path, config) or path not in named_places(config)
    ):
        return False
    from pytest_evals.dialects.file_markers import is_task_module

    return is_task_module(raw_of(path))


def is_test_file(path: Path, config: pytest.Config) -> bool:
    """Whether pytest itself would take a Python file that nobody names."""
    if not config.pluginmanager.hasplugin("python"):
        return False
    return matches(path, config.getini("python_files"))


def matches(path: Path, patterns: Sequence[str]) -> bool:
    """Whether the name of a file is one of those that are wanted."""
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def named_places(config: pytest.Config) -> set[Path]:
    """Files and folders of the command line."""
    base = config.invocation_params.dir
    args = (str(arg).partition("::")[0] for arg in config.args)
    return {Path(os.path.normpath(base / arg)) for arg in args}


def raw_of(path: Path) -> bytes:
    """The bytes of a file; none of one that cannot be read, or is too large."""
    try:
        return b"" if path.stat().st_size > LARGEST else path.read_bytes()
    except OSError:
        return b""


def _others_read(path: Path, hook: Any, config: pytest.Config) -> bool:
    """Whether a user's ``pytest_evals_load_tasks`` reads this file."""
    load = hook.pytest_evals_load_tasks
    for implementation in load.get_hookimpls():
        if getattr(implementation.plugin, "__name__", "") != OURS:
            return load(path=path, config=config) is not None
    return False
