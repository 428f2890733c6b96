"""The nodes that pytest collects: a file, its documents, and its gates.

A document is a direct child of its file, so that pytest's selection works:
``arc.yaml::arc_easy`` selects all documents ``arc_easy[…]`` and the gates below
``arc_easy``. A group ``mmlu.yaml::mmlu`` is a collector of all its members and gates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest._code.code import ExceptionInfo, TerminalRepr, Traceback

from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.core.group import Group
from pytest_evals.core.node_names import file_id
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError
from pytest_evals.plugin.junit import wants_properties
from pytest_evals.plugin.messages import (
    DocumentFailed,
    GateFailed,
    ShortMessage,
    document_properties,
    gate_properties,
    gate_word,
    heading_of,
    message_of,
    users_traceback,
)
from pytest_evals.plugin.models.compatibility import refuse_early
from pytest_evals.plugin.models.definitions import Definition
from pytest_evals.plugin.session import EvalSession, session_of
from pytest_evals.plugin.small_item import SmallItem
from pytest_evals.plugin.suite.file_nodes import node_of
from pytest_evals.run.batches import Job, jobs_of
from pytest_evals.run.suite import GroupRun, TaskRun


class TaskFile(pytest.File):
    """A file with tasks."""

    _definition: Definition | None = None
    collected: Sequence[pytest.Item | pytest.Collector] = ()
    """The result of :meth:`collect`."""
    group_names: Mapping[str, Collection[str]] = {}
    """Names of the groups of each task; set once all files are collected."""

    @cached_property
    def named(self) -> str:
        """Its node id, which pytest formats at each access."""
        return self.nodeid

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the documents of all its tasks, then their gates; or its groups."""
        session = session_of(self.config)
        refuse_early(self.config, session.run.inference.answers)
        self.add_marker("evals")
        nodes: list[pytest.Item | pytest.Collector] = []
        gates: list[pytest.Collector] = []
        for run in session.load(self.path, self.ihook, self.nodeid):
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
        if not session_of(self.config).creates_own_documents:
            return self.documents(run)
        name = f"{run.name}[]"
        return [PendingDocuments.from_parent(self, name=name, run=run)]

    def documents(
        self, run: TaskRun, places: Sequence[int] | None = None
    ) -> list[DocItem]:
        """Return one item a document. ``places``: which of its documents; ``None``
        for all."""
        task, name = run.task, run.name
        ids, indices = run.ids, run.indices
        if places is not None:
            ids, indices = [ids[n] for n in places], [indices[n] for n in places]
        return [
            DocItem.from_parent(self, name=f"{name}[{id_}]", nodeid=nodeid, job=job)
            for id_, nodeid, job in zip(
                ids,
                self._node_ids(run.nodeid, ids),
                jobs_of(task, indices),
                strict=True,
            )
        ]

    def _node_ids(self, task: str, ids: Iterable[str]) -> Iterator[Any]:
        """Yield the node ids of documents; those of pytest 9.2 share all parts but the
        document's id."""
        parsed: Any = getattr(self, "id", None)
        if hasattr(parsed, "with_params"):
            yield from map(type(parsed).parse(task).with_params, ids)
        else:
            yield from (f"{task}[{id_}]" for id_ in ids)

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Return our own errors without traceback, and others with pytest's."""
        if isinstance(excinfo.value, EvalsError):
            return ShortMessage(str(excinfo.value).splitlines(), str(self.path), 0)
        return super().repr_failure(excinfo)

    per_document = False
    """Whether each document is set up, and not only the first one of the file."""

    def prepare(self, item: DocItem) -> None:
        """Called when a document is set up."""

    @cached_property
    def evals(self) -> EvalSession:
        """The session's state."""
        return session_of(self.config)

    @cached_property
    def score_hook(self) -> Any:
        """``pytest_evals_score`` if a user implements it for this folder, else None."""
        hook = self.ihook.pytest_evals_score
        return hook if hook.get_hookimpls() else None

    @cached_property
    def shows_documents(self) -> bool:
        """Whether a report contains the properties of each document."""
        return wants_properties(self.config)

    def model_definition(self, item: DocItem) -> Definition:
        """Return the model fixtures of this file's documents without executing them."""
        if self._definition is None:
            found = self.fixtureinfo(item).name2fixturedefs
            self._definition = Definition(
                found["eval_model"][-1], found["eval_judge"][-1]
            )
        return self._definition

    def fixtureinfo(self, item: DocItem) -> Any:
        """Return the fixture info that all documents of this file share.

        pytest has no public API for fixtures of an item that is not a function; doctest
        uses the same private one.
        """
        if not hasattr(self, "_fixtureinfo"):
            manager = self.session._fixturemanager
            self._fixtureinfo = manager.getfixtureinfo(
                node=item, func=_wants_models, cls=None
            )
        return self._fixtureinfo


class GroupNode(pytest.Collector):
    """A group; its parent is the file that defines it, or the group that contains it.

    Members that the group defines are below it; all others are below the file that
    defines them.
    """

    def __init__(self, *, run: GroupRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Return the documents of all members, their gates, and then its own gates."""
        session = session_of(self.config)
        documents: list[pytest.Item | pytest.Collector] = []
        gates: list[pytest.Collector] = []
        for child in self.run.group.children:
            if isinstance(child, Group):
                documents.append(self._group(child))
            else:
                run = session.suite.tasks[child.name]
                file = file_node(run.path, self)
                if session.deduplication.take(run, self):
                    documents += file.collected_documents(run)
                    gates += file.gates(run)
        yield from documents
        yield from gates
        if session.deduplication.take(self.run, self):
            yield from gate_items(self, self.run)

    def _group(self, group: Group) -> GroupNode:
        run = session_of(self.config).suite.groups[group.name]
        below = run.nodeid == f"{self.nodeid}::{run.name}"
        parent = self if below else file_node(run.path, self)
        return GroupNode.from_parent(parent, name=run.name, run=run)


def file_node(path: Path, near: pytest.Item | pytest.Collector) -> TaskFile:
    """Return the node of a file with tasks: that of ``near`` if it is the same file,
    else one that is created once a session."""
    for node in near.iter_parents():
        if isinstance(node, TaskFile) and node.path == path:
            return node
    config = near.config
    files = session_of(config).files
    if path not in files:
        nodeid = file_id(path, config.rootpath)
        place = node_of(path, near, session_of(config).folders)
        file = place.file
        if not isinstance(file, TaskFile):
            file = TaskFile.from_parent(place.folder, path=path, nodeid=nodeid)
        file.add_marker("evals")
        files[path] = file
    return cast("TaskFile", files[path])


def marks_of(task: Task) -> list[pytest.Mark]:
    """Return a task's tags as markers of its documents and gates."""
    return [pytest.Mark(tag, (), {}, _ispytest=True) for tag in task.tags]


_NO_SCORE = frozenset({"error", "unscored"})


def _wants_models(eval_model: object, eval_judge: object) -> None:
    """The signature of a document, for its fixtures."""


class DocItem(SmallItem):
    """One document of a task."""

    __slots__ = ("job", "packed", "shown", "took_s", "word")
    obj = None
    fixturenames: tuple[str, ...] = ()
    in_package = False
    parent: TaskFile

    def __init__(self, *, job: Job, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.word = ""
        """Its result in reports: ``correct``, ``wrong``, ``scored``, …"""
        self.packed: bytes | None = None
        """Its serialized record, on a worker of pytest-xdist."""
        self.took_s = 0.0
        """Its share of the model's time and its own scoring, in seconds."""
        self.shown: Sequence[str] = ()
        """Prompt, answer and target as lines, if the terminal shows them."""

    def initial_markers(self) -> list[pytest.Mark]:
        """Return the task's tags as markers."""
        return marks_of(self.job.task)

    def initial_keyword_matches(self) -> set[str]:
        """Return the names of the groups of its task, for ``-k``."""
        return {*self.parent.group_names.get(self.job.task.name, ())}

    def release(self) -> None:
        """Release what is not needed once its report is made."""
        super().release()
        self.packed = None

    @property
    def _fixtureinfo(self) -> Any:
        # --fixtures-per-test expects a function for each item with fixtures.
        if self.config.getoption("show_fixtures_per_test"):
            return None
        return self.parent.fixtureinfo(self)

    @property
    def location(self) -> tuple[str, int | None, str]:
        """File and name, without resolving the path again for each document."""
        return (self.parent.named, None, self.name)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Heading of a failure."""
        return self.path, self.job.task.source.line or None, self.name

    def setup(self) -> None:
        """Open the model at the first document that needs it."""
        self.funcargs: dict[str, Any] = {}
        if not self.config.getoption("setuponly", False):
            session_of(self.config).models.ensure(self)
            self.parent.prepare(self)

    def runtest(self) -> None:
        """Take the response and score it.

        Raises:
            DocumentFailed: It could not be scored; or its answer is wrong, with
                ``--evals-strict``.
        """
        session = self.parent.evals
        record = session.run_document(self)
        is_wrong = self.word in ("wrong", "regressed")
        fails = self.word in _NO_SCORE or (is_wrong and session.options.strict)
        if fails or self.parent.shows_documents:
            self.user_properties += document_properties(record, self.word)
        if fails:
            raise DocumentFailed(record)
        if session.document_lines is not None:
            self.shown = session.document_lines(self, record)

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Return the message of our errors, without traceback."""
        return message_of(excinfo.value, self) or super().repr_failure(excinfo, style)

    def _traceback_filter(self, excinfo: ExceptionInfo[BaseException]) -> Traceback:
        """Shorten the traceback; not called with ``--full-trace``."""
        return users_traceback(excinfo)


class PendingDocuments(DocItem):
    """All documents of a task, until a worker of pytest-xdist knows its shard."""

    def __init__(self, *, run: TaskRun, **kwargs: Any) -> None:
        super().__init__(job=Job(run.task, -1), **kwargs)
        self.run = run

    @property
    def node_ids(self) -> list[str]:
        """Return the node ids of all documents."""
        return [f"{self.run.nodeid}[{id_}]" for id_ in self.run.ids]

    @cached_property
    def all_created(self) -> dict[str, DocItem]:
        """All documents by node id."""
        return dict(zip(self.node_ids, self.parent.documents(self.run), strict=True))

    def created(self, nodeids: Iterable[str]) -> list[DocItem]:
        """Return some of the documents; those that were created before are reused."""
        if "all_created" in vars(self):
            return [self.all_created[nodeid] for nodeid in nodeids]
        places = {nodeid: place for place, nodeid in enumerate(self.node_ids)}
        return self.parent.documents(self.run, [places[nodeid] for nodeid in nodeids])


class TaskGates(pytest.Collector):
    """The gates of a task, under its name, so that the name selects them."""

    parent: TaskFile

    def __init__(self, *, run: TaskRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.own_markers.extend(marks_of(run.task))

    def collect(self) -> Iterator[GateItem]:
        """One item a gate."""
        return gate_items(self, self.run)


def gate_items(parent: pytest.Collector, run: TaskRun | GroupRun) -> Iterator[GateItem]:
    """One item a gate of a task or a group."""
    for gate in run.gates:
        nodeid = f"{run.nodeid}::{gate.id}"
        yield GateItem.from_parent(
            parent, name=gate.id, nodeid=nodeid, gate=gate, run=run
        )


class GateItem(pytest.Item):
    """One gate; runs after all documents."""

    in_package = False

    def __init__(self, *, gate: Gate, run: TaskRun | GroupRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gate = gate
        self.run = run
        self.word = ""
        """Its verdict, for reports."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Heading of a failure: task or group, and the gate's condition as written."""
        place = self.gate.source
        return Path(place.path), place.line or None, heading_of(self.gate)

    def runtest(self) -> None:
        """Judge the gate.

        Raises:
            GateFailed: Its condition is false, it is invalid, or it is inconclusive
                with ``--evals-inconclusive=fail``.
        """
        verdict, result = session_of(self.config).run.judge(self.gate)
        self.word = gate_word(verdict)
        if verdict.outcome is Outcome.SKIPPED:
            pytest.skip(verdict.reason)
        self.user_properties += gate_properties(verdict)
        if verdict.is_red:
            raise GateFailed(verdict, result)

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Return verdict, numbers, place and examples, without traceback."""
        return message_of(excinfo.value, self) or super().repr_failure(excinfo, style)
