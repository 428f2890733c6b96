"""``--lf``, ``--sw`` and gates: a gate is run again with all its documents, since it
says nothing over a part of them; one that failed stays so until it was judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from pytest_evals.plugin.late import is_late
from pytest_evals.plugin.nodes import DocItem, GateItem
from pytest_evals.plugin.session import session_of

__all__ = ["documents_of_gates", "keep_failed"]


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
    return [
        item
        for item in before
        if isinstance(item, DocItem)
        and item.job.task.name in tasks
        and item not in kept
    ]


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
