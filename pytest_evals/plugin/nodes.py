"""The nodes that pytest collects: a file, its documents, and its gates.

A document is a direct child of its file, so that pytest's selection works:
``arc.yaml::arc_easy`` selects all documents ``arc_easy[…]`` and the gates below
``arc_easy``. A group ``mmlu.yaml::mmlu`` is a collector of all its members and gates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest._code.code import ExceptionInfo, TerminalRepr

from pytest_evals.core.node_names import file_id
from pytest_evals.core.task import Group
from pytest_evals.errors import EvalsError
from pytest_evals.plugin.documents import DocItem, EvalFile, marks_of
from pytest_evals.plugin.gates import GateItem, gate_items
from pytest_evals.plugin.messages import ShortMessage
from pytest_evals.plugin.models.compatibility import refuse_early
from pytest_evals.plugin.own_documents import PendingDocuments
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.suite.file_nodes import Node, node_of
from pytest_evals.run.suite import GroupRun, TaskRun


class TaskFile(EvalFile):
    """A file with tasks."""

    collected: Sequence[Node] = ()
    """The result of :meth:`collect`."""

    def collect(self) -> Iterable[Node]:
        """Return the documents of all its tasks, then their gates; or its groups."""
        session = self.evals
        if session.is_first:
            refuse_early(self.config, session.tested)
        self.add_marker("evals")
        failed = session.shared.failed_files
        if not session.is_first and self.path in failed:  # the first model reports it
            return []
        nodes: list[Node] = []
        gates: list[pytest.Collector] = []
        failed.add(self.path)
        runs = session.load(self.path, self.ihook, self.nodeid)
        failed.remove(self.path)
        for run in runs:
            if isinstance(run, GroupRun):
                nodes.append(GroupNode.from_parent(self, name=run.name, run=run))
            elif session.deduplication.take(run, self):
                nodes += self.collected_documents(run)
                gates += self.gates(run)
        self.collected = [*nodes, *gates]
        return self.collected

    def gates(self, run: TaskRun) -> list[TaskGates]:
        """Return the collector of a task's gates, if it has any."""
        if not run.gates:
            return []
        name, nodeid = run.name, run.nodeid
        return [TaskGates.from_parent(self, name=name, nodeid=nodeid, run=run)]

    def collected_documents(self, run: TaskRun) -> list[DocItem]:
        """Return one item a document; or one item for all, if this is a worker of
        pytest-xdist that will create only those of its shard."""
        for tag in run.task.tags:
            self.config.addinivalue_line("markers", f"{tag}: a tag of eval tasks")
        if not self.evals.creates_own_documents:
            return self.documents(run)
        name = f"{run.name}[]"
        return [PendingDocuments.from_parent(self, name=name, run=run)]

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Return our own errors without traceback, and others with pytest's."""
        if isinstance(excinfo.value, EvalsError):
            return ShortMessage(str(excinfo.value).splitlines(), str(self.path), 0)
        return super().repr_failure(excinfo)


class GroupNode(pytest.Collector):
    """A group; its parent is the file that defines it, or the group that contains it.

    Members that the group defines are below it; all others are below the file that
    defines them.
    """

    evals: EvalSession

    def __init__(self, *, run: GroupRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run, self.evals = run, kwargs["parent"].evals

    def collect(self) -> Iterator[Node]:
        """Return the documents of all members, their gates, and then its own gates."""
        session = self.evals
        documents: list[Node] = []
        gates: list[pytest.Collector] = []
        for child in self.run.group.children:
            if isinstance(child, Group):
                documents.append(self._group(child))
            else:
                run = session.suite.tasks[child.name]
                file = file_node(run.path, self, session)
                if session.deduplication.take(run, self):
                    documents += file.collected_documents(run)
                    gates += file.gates(run)
        yield from documents
        yield from gates
        if session.deduplication.take(self.run, self):
            yield from gate_items(self, self.run)

    def _group(self, group: Group) -> GroupNode:
        run = self.evals.suite.groups[group.name]
        below = run.nodeid == f"{self.nodeid}::{run.name}"
        parent = self if below else file_node(run.path, self, self.evals)
        return GroupNode.from_parent(parent, name=run.name, run=run)


def file_node(path: Path, near: Node, evals: EvalSession) -> TaskFile:
    """Return a model's node of a file with tasks: that of ``near`` if it is the same
    file, else one that is created once a session."""
    for node in near.iter_parents():
        if isinstance(node, TaskFile) and node.path == path and node.evals is evals:
            return node
    config, files = near.config, evals.files
    if path not in files:
        nodeid = file_id(path, config.rootpath)
        folder, file = node_of(path, near, evals.shared.folders)
        if not isinstance(file, TaskFile) or file.evals is not evals:
            file = TaskFile.from_parent(folder, path=path, nodeid=nodeid, evals=evals)
        file.add_marker("evals")
        files[path] = file
    return cast("TaskFile", files[path])


class TaskGates(pytest.Collector):
    """The gates of a task, under its name, so that the name selects them."""

    parent: TaskFile
    evals: EvalSession

    def __init__(self, *, run: TaskRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run, self.evals = run, kwargs["parent"].evals
        self.own_markers.extend(marks_of(run.task))

    def collect(self) -> Iterator[GateItem]:
        """One item a gate."""
        return gate_items(self, self.run)


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
    """The levels of the tree that ``--collect-only`` and editors show, as a pytest
    plugin: a group, its tasks, and their documents and gates.

    Node ids do not change: documents are children of their file while tests run, so
    that all selections of pytest work. It is registered before the hooks that plan
    documents, and so called after them.
    """

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
