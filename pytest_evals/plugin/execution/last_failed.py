"""``--lf``, ``--sw`` and gates: a gate runs again with all its documents; one that
failed stays failed until it is judged again."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest

from pytest_evals.plugin.nodes import TaskFile


class LastFailed:
    """The hook of a session that reruns failures, as a pytest plugin."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Collect all documents of a file with a failure: ``--lf`` would leave those
        that did not fail out before it is known whether a gate needs them."""
        report = yield
        if isinstance(collector, TaskFile) and report.passed:
            report.result[:] = collector.collected
        return report


def keep_failed(config: pytest.Config, skipped: Iterable[str]) -> None:
    """Let the gates that were skipped stay in pytest's list of failures, if they were
    in it before: a skip is no success."""
    plugin = config.pluginmanager.getplugin("lfplugin")
    cache = getattr(config, "cache", None)
    if plugin is None or cache is None:
        return
    before = cache.get("cache/lastfailed", {})
    for nodeid in skipped:
        if before.get(nodeid):
            plugin.lastfailed[nodeid] = True
