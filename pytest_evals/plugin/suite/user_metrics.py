"""Whether hooks of users may add metrics to tasks, or change their scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.run.user_hooks import adds_metrics

_HOOKS = (b"pytest_evals_metrics", b"pytest_evals_score")


def hooks_of(config: pytest.Config) -> Callable[[Path], bool]:
    """Whether hooks may add metrics to tasks of a folder, or change their scores.

    A controller of pytest-xdist loads no conftest.py below the folders of the command
    line: there it is enough that one of them has the name of such a hook.
    """

    def hooked(folder: Path) -> bool:
        if adds_metrics(config.hook):
            return True
        return is_distributed(config) and any(
            any(name in _raw(place / "conftest.py") for name in _HOOKS)
            for place in (folder, *folder.parents)
            if place.is_relative_to(config.rootpath)
        )

    return hooked


def _raw(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
