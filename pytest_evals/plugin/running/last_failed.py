"""``--lf``, ``--sw`` and gates: a gate is run again with all its documents, since it
says nothing over a part of them; one that failed stays so until it was judged again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

import pytest

from pytest_evals.plugin.late import is_late
from pytest_evals.plugin.nodes import DocItem, GateItem, TaskFile
from pytest_evals.plugin.session import session_of

__all__ = ["LastFailed", "documents_of_gates", "keep_failed"]


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


def documents_of_gates(
    config: pytest.Config, before: Sequence[pytest.Item], after: Sequence[pytest.Item]
) -> list[DocItem]:
    """Documents that ``--lf`` or ``--sw`` has deselected although a gate of theirs
    runs; all, if a test of the results does, which may ask for any of them.

    Args:
        config: pytest's configuration.
        before: All collected items.
        after: Those that are still selected.
    """
    option = config.option
    leaves_out = config.getoption("lf", False) or config.getoption("stepwise", False)
    if not leaves_out or option.keyword or option.markexpr:
        return []
    known = session_of(config).known
    judged = [item for item in after if isinstance(item, GateItem)]
    tasks = {task for item in judged for task in known.tasks_of(item.gate.task)}
    if any(map(is_late, after)):
        tasks.update(known.tasks)
    kept = set(after)
    found = [
        item
        for item in before
        if isinstance(item, DocItem)
        and item.job.task.name in tasks
        and item not in kept
    ]
    _select_again(config, found)
    return found


def _select_again(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Let pytest's terminal not count items as deselected that run after all."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    counted = getattr(terminal, "stats", {}).get("deselected")
    if counted:
        again = set(map(id, items))
        counted[:] = [item for item in counted if id(item) not in again]


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
