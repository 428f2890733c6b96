"""Order of groups and tasks in a table: lm-eval's (0.4.13, ``utils.make_table``).
Top-level groups come first, each with its members below it, then tasks without a group;
all sorted by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pytest_evals.core.result import GroupResult, RunResult, TaskResult


class TableEntry(NamedTuple):
    """A task or group, and its depth."""

    result: TaskResult | GroupResult
    depth: int


def ordered(run: RunResult) -> Iterator[TableEntry]:
    """Yield all groups and tasks; a task of several groups is listed below each of
    them."""
    known: dict[str, TaskResult | GroupResult] = {t.task.name: t for t in run.tasks}
    known |= {one.group.name: one for one in run.groups}
    held = {child.name: None for one in run.groups for child in one.group.children}
    top = [name for name in known if name not in held]
    top.sort(key=lambda name: (not isinstance(known[name], GroupResult), name))
    for name in top:
        yield from _below(name, known, 0)


def _below(
    name: str, known: dict[str, TaskResult | GroupResult], depth: int
) -> Iterator[TableEntry]:
    result = known[name]
    yield TableEntry(result, depth)
    if isinstance(result, GroupResult):
        for child in sorted(c.name for c in result.group.children):
            if child in known:
                yield from _below(child, known, depth + 1)
