"""Is this file one of ours? Asked of every file that pytest walks over, so it reads a
few bytes and parses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["has_other_dialects", "is_eval_file", "looks_like_lm_eval"]

OURS = "pytest_evals.plugin.hooks"
"""The module of our own hooks."""

LARGEST = 4 * 1024 * 1024
"""Bytes; a YAML file beyond this is data, not a task."""


def is_eval_file(path: Path, parent: pytest.Collector) -> bool:
    """Whether a front end of ours, or a user's, may read this file."""
    return looks_like_lm_eval(path) or has_other_dialects(path, parent)


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


def has_other_dialects(path: Path, parent: pytest.Collector) -> bool:
    """Whether a user's ``pytest_evals_load_tasks`` reads this file."""
    hook = parent.ihook.pytest_evals_load_tasks
    for implementation in hook.get_hookimpls():
        if getattr(implementation.plugin, "__name__", "") != OURS:
            return hook(path=path, config=parent.config) is not None
    return False
