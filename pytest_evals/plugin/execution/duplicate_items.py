"""Remove duplicate items, which both a group and a file have collected."""

from __future__ import annotations

import pytest

from pytest_evals.plugin.nodes import DocItem, GateItem
from pytest_evals.run.suite import Suite


def deduplicate(items: list[pytest.Item], known: Suite) -> None:
    """Keep each document and gate once, under the last definition of its name, and add
    the names of groups to the keywords of ``-k``.

    Args:
        items: Items of the session; the list changes.
        known: The tasks and groups.
    """
    if not known.groups:
        return
    seen: set[str] = set()
    kept = []
    for item in items:
        if _is_current(item, known) and item.nodeid not in seen:
            kept.append(item)
            if isinstance(item, DocItem | GateItem):
                seen.add(item.nodeid)
    items[:] = kept
    around = _groups_of(known)
    for item in kept:
        if isinstance(item, DocItem) and item.job.task.name in around:
            item.parent.group_names = around
        elif isinstance(item, GateItem) and item.gate.task in around:
            item.extra_keyword_matches |= around[item.gate.task]


def _groups_of(known: Suite) -> dict[str, set[str]]:
    """Return the names of all groups of each task."""
    found: dict[str, set[str]] = {}
    for run in known.groups.values():
        for task in run.group.tasks():
            found.setdefault(task.name, set()).add(run.group.name)
    return found


def _is_current(item: pytest.Item, known: Suite) -> bool:
    if isinstance(item, DocItem):
        run = known.tasks.get(item.job.task.name)
        return run is not None and run.task is item.job.task
    return not isinstance(item, GateItem) or known.holds(item.run)
