"""Is this file one of ours? Asked of every file that pytest walks over, so it reads a
few bytes and parses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

__all__ = ["is_eval_file", "looks_like_lm_eval"]

OURS = "pytest_evals.plugin.hooks"
"""The module of our own hooks."""

LARGEST = 4 * 1024 * 1024
"""Bytes; a YAML file beyond this is data, not a task."""


def is_eval_file(path: Path, hook: Any, config: pytest.Config) -> bool:
    """Whether a front end of ours, or a user's, may read this file.

    Args:
        path: The file.
        hook: pytest's hooks, as the file's folder sees them.
        config: pytest's configuration.
    """
    return looks_like_lm_eval(path) or _others_read(path, hook, config)


def looks_like_lm_eval(path: Path) -> bool:
    """Whether the top-level keys of a YAML file are those of lm-eval."""
    if path.suffix not in (".yaml", ".yml"):
        return False
    from pytest_evals.frontends.sniff import dialect

    try:
        if path.stat().st_size > LARGEST:
            return False
        return dialect(path.read_bytes()) == "lm_eval"
    except OSError:
        return False


def _others_read(path: Path, hook: Any, config: pytest.Config) -> bool:
    """Whether a user's ``pytest_evals_load_tasks`` reads this file."""
    load = hook.pytest_evals_load_tasks
    for implementation in load.get_hookimpls():
        if getattr(implementation.plugin, "__name__", "") != OURS:
            return load(path=path, config=config) is not None
    return False
