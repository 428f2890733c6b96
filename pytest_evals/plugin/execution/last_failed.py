"""``--lf``, ``--sw`` and gates: a failed gate runs again with all its documents, and
stays in the list of failures until it is judged again."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest

from pytest_evals.plugin.nodes import TaskFile


class LastFailed:
    """Keeps documents that a gate needs, as a pytest plugin of ``--lf``."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Collect all documents of a file with a failure; ``--lf`` omits those that did
        not fail before it is known whether a gate needs them."""
        report = yield
        if isinstance(collector, TaskFile) and report.passed:
            report.result[:] = collector.collected
        return report


def keep_failed(config: pytest.Config, skipped: Iterable[str]) -> None:
    """Keep skipped gates in pytest's list of failures if they were in it before: a skip
    is not a success."""
    plugin = config.pluginmanager.getplugin("lfplugin")
    cache = getattr(config, "cache", None)
    if plugin is None or cache is None:
        return
    before = cache.get("cache/lastfailed", {})
    for nodeid in skipped:
        if before.get(nodeid):
            plugin.lastfailed[nodeid] = True
