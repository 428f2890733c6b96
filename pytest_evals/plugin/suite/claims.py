"""Collect each document and gate once, even if several files and groups name it."""

from __future__ import annotations

import pytest

from pytest_evals.run.suite import GroupRun, TaskRun


class Claims:
    """Who collects what: the first to ask for a task or a group gets it.

    A file of which the command line names a part is collected by everybody who asks,
    since nobody can tell which part of it another one got; what comes twice is taken
    out in the end.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Nothing is claimed yet."""
        base = config.invocation_params.dir
        parts = (str(arg).partition("::") for arg in config.args)
        self._named = {base / path for path, colons, _ in parts if colons}
        self._taken: dict[str, pytest.Collector] = {}

    def take(self, run: TaskRun | GroupRun, collector: pytest.Collector) -> bool:
        """Whether the collector is to give the documents of a task, or the gates."""
        if run.path in self._named or self._named & {collector.path}:
            return True
        return self._taken.setdefault(run.nodeid, collector) is collector
