"""Which files pytest collects as eval files: :mod:`~pytest_evals.dialects.detect`, the
command line and the ini options decide. Called for every file that pytest visits."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.plugin.settings.options import OPTIONS

OURS = "pytest_evals.plugin.hooks"  # the module of our own hooks


def is_eval_file(path: Path, hook: Any, config: pytest.Config) -> bool:
    """Whether a front end of ours, or a user's, may read this file."""
    return bool(dialect_here(path, config)) or _others_read(path, hook, config)


def dialect_here(path: Path, config: pytest.Config) -> str:
    """The dialect of a file, empty if it has none. Python files count only if
    ``evals_python_files`` matches them, or if the command line names them and they are
    no tests."""
    if path.suffix == ".py" and not matches(path, config.stash[OPTIONS].python_files):
        if is_test_file(path, config) or path not in named_places(config):
            return ""
    elif path.suffix not in (".yaml", ".yml", ".py"):
        return ""
    from pytest_evals.dialects.detect import dialect_of, raw_of

    return dialect_of(path, raw_of)


_EVAL = re.compile(rb"^[ \t]*@(?:\w+\.)*eval\b|\beval\(|\beval as \w", re.MULTILINE)


def is_eval_module(path: Path, config: pytest.Config) -> bool:
    """Whether a Python file is a module with evals: ``evals_python_files`` matches its
    name, and it contains the name of this package and a call or decorator ``eval``."""
    if path.suffix != ".py" or not matches(path, config.stash[OPTIONS].python_files):
        return False
    from pytest_evals.dialects.detect import raw_of

    raw = raw_of(path)
    return b"pytest_evals" in raw and _EVAL.search(raw) is not None


def collects_only_evals(config: pytest.Config) -> bool:
    """Whether the session runs no test: it checks evals, or reports on them."""
    options = config.stash[OPTIONS]
    return options.validate or options.plan or bool(options.cache_info)


def has_evals(collector: pytest.Collector) -> bool:
    """Whether a collector of pytest or of another plugin may contain evals: a module
    that contains the name of this package."""
    if not isinstance(collector, pytest.Module):
        return False
    from pytest_evals.dialects.detect import raw_of

    return b"pytest_evals" in raw_of(collector.path)


def is_test_file(path: Path, config: pytest.Config) -> bool:
    """Whether pytest itself would take a Python file that nobody names."""
    if not config.pluginmanager.hasplugin("python"):
        return False
    return matches(path, config.getini("python_files"))


def matches(path: Path, patterns: Sequence[str]) -> bool:
    """Whether the name of a file is selected."""
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def named_places(config: pytest.Config) -> set[Path]:
    """Files and folders of the command line."""
    base = config.invocation_params.dir
    args = (str(arg).partition("::")[0] for arg in config.args)
    return {Path(os.path.normpath(base / arg)) for arg in args}


def _others_read(path: Path, hook: Any, config: pytest.Config) -> bool:
    """Whether a user's ``pytest_evals_load_tasks`` reads this file."""
    load = hook.pytest_evals_load_tasks
    for implementation in load.get_hookimpls():
        if getattr(implementation.plugin, "__name__", "") != OURS:
            return load(path=path, config=config) is not None
    return False
