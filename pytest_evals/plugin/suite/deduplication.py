"""Tasks and groups that several collectors reach: one of them collects each."""

from __future__ import annotations

import pytest

from pytest_evals.run.suite import GroupRun, TaskRun


class Deduplication:
    """Assigns each task and group to the first collector that reaches it.

    If the command line names a part of a file, all collectors of its tasks collect
    them, because the parts are not known here;
    :mod:`~pytest_evals.plugin.execution.hooks` removes duplicates.
    """

    def __init__(self, config: pytest.Config) -> None:
        base = config.invocation_params.dir
        parts = (str(arg).partition("::") for arg in config.args)
        self._named_files = {base / path for path, colons, _ in parts if colons}
        self._collectors: dict[str, pytest.Collector] = {}

    def take(self, run: TaskRun | GroupRun, collector: pytest.Collector) -> bool:
        """Return whether the collector collects the documents of a task, or the gates
        of a group."""
        if run.path in self._named_files or self._named_files & {collector.path}:
            return True
        return self._collectors.setdefault(run.nodeid, collector) is collector
