"""Levels of the tree that ``--collect-only`` and editors show: a group, its tasks, and
their documents and gates. Node ids do not change: documents are children of their file
while tests run, so that all selections of pytest work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_evals.plugin.documents import DocItem, EvalFile
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.nodes import file_node
from pytest_evals.plugin.session import EvalSession
from pytest_evals.run.suite import GroupRun, TaskRun


class TreeLevel(pytest.Class):
    """A group or task. VS Code nests tests below their classes only."""

    def __init__(self, *, file: EvalFile, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.evals, self.named = file.evals, file.named
        self.row_lines = file.row_lines

    def collect(self) -> Iterator[pytest.Item]:
        """Collect nothing: documents and gates exist by then."""
        return iter(())


class TreeLevels:
    """The levels of a session's tests, as a pytest plugin. It is registered before the
    hooks that plan documents, and so called after them."""

    def __init__(self) -> None:
        self._levels: dict[tuple[EvalSession, str], TreeLevel] = {}
        self._groups: dict[EvalSession, dict[str, GroupRun]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Put documents and gates below their task and its groups."""
        for item in session.items:
            if isinstance(item, GateItem):
                item.parent = self._level(item.run, item, item.evals)
            elif isinstance(item, DocItem):
                evals = item.parent.evals
                run = evals.suite.tasks.get(item.job.task.name)
                if run is not None:
                    item.parent = self._level(run, item, evals)  # type: ignore[assignment]

    def _level(
        self, run: TaskRun | GroupRun, item: pytest.Item, evals: EvalSession
    ) -> TreeLevel:
        key = evals, run.name
        if key not in self._levels:
            above = self._groups_of(evals).get(run.name)
            file = file_node(run.path, item, evals)
            parent = file if above is None else self._level(above, item, evals)
            self._levels[key] = TreeLevel.from_parent(
                parent, name=run.name, nodeid=run.nodeid, path=file.path, file=file
            )
        return self._levels[key]

    def _groups_of(self, evals: EvalSession) -> dict[str, GroupRun]:
        """Return the first group of each task and group."""
        if evals not in self._groups:
            found = self._groups[evals] = {}
            for group in evals.suite.groups.values():
                for child in group.group.children:
                    found.setdefault(child.name, group)
        return self._groups[evals]
