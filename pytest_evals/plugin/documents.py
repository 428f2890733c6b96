"""The items of documents, and the file nodes that they share; the results of documents
and gates in reports.

A document takes little memory. pytest gives each item six containers, which stay empty
in almost all documents and need more memory than everything else of an item. Here they
are created on first access, and unchanged ones can be released.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest._code.code import ExceptionInfo, TerminalRepr, Traceback
from _pytest.mark.structures import NodeKeywords
from _pytest.pathlib import bestrelpath

from pytest_evals.core.node_names import document_start
from pytest_evals.core.task import Task
from pytest_evals.errors import Place
from pytest_evals.plugin import messages
from pytest_evals.plugin.junit import writes_rows
from pytest_evals.plugin.models.session_models import Definition
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.run.batches import Job, jobs_of
from pytest_evals.run.suite import TaskRun

Status = tuple[str, str, str | tuple[str, dict[str, bool]]]

_STATUSES: dict[str, Status] = {
    "correct": ("passed", "", "PASSED"),
    "scored": ("passed", "", "PASSED"),
    "wrong": ("wrong", "", ("WRONG", {"yellow": True})),
    "regressed": ("regressed", "", ("REGRESSED", {"red": True})),
    "error": ("error", "E", ("ERROR", {"red": True})),
    "unscored": ("error", "E", ("ERROR", {"red": True})),
    "unsent": ("not scored", "", ("NOT SCORED", {"yellow": True})),
    "stopped": ("stopped", "", ("STOPPED", {"yellow": True})),
    "skipped": ("skipped", "", ("SKIPPED", {"yellow": True})),
    "pending": ("pending", "", ("PENDING", {"yellow": True})),
    "invalid": ("failed", "F", ("INVALID", {"red": True})),
    "advisory": ("advisory", "a", ("ADVISORY", {"yellow": True})),
    "inconclusive": ("inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})),
}
"""Word → category, letter and word. An empty letter with a word prints nothing for
thousands of documents, and still counts for pytest's percentage."""

_FAILURES = ("error", "unscored", "invalid")
"""Words of failed reports; any other failed report keeps pytest's status."""

_OUTCOMES = ("passed", "failed", "skipped")
"""pytest's own; pytest-rerunfailures adds one for a failure that does not count."""


def status_of(report: pytest.TestReport) -> Status | None:
    """Return category, letter and word of a report of ours; ``None`` for any other."""
    word = getattr(report, "evals_word", None)
    if word is None or report.when != "call" or hasattr(report, "wasxfail"):
        return None
    if report.outcome not in _OUTCOMES:
        return None
    if report.outcome == "failed" and word not in _FAILURES:
        return None
    return _STATUSES.get("skipped" if word == "" and report.skipped else word)


class EvalFile(pytest.File):
    """A file with documents, and the values that they share."""

    _definition: Definition | None = None
    group_names: Mapping[str, Collection[str]] = {}
    """Names of the groups of each task; set once all files are collected."""

    def __init__(self, *, evals: EvalSession, **kwargs: Any) -> None:
        """Create the node for one model: ``evals`` is its state."""
        super().__init__(**kwargs)
        self.evals = evals

    def documents(
        self, run: TaskRun, places: Sequence[int] | None = None
    ) -> list[DocItem]:
        """Return one item a document. ``places``: which of its documents; ``None``
        for all."""
        task, name = run.task, run.name
        found = lines_of(task, self.path, self.named, self.config)
        self.row_lines[id(task.rows)] = found
        ids, indices = run.ids, run.indices
        if places is not None:
            ids, indices = [ids[n] for n in places], [indices[n] for n in places]
        start, names = document_start(name, run.label), ids
        if run.label:
            names = [document_start("", run.label)[1:] + id_ for id_ in ids]
        return [
            DocItem.from_parent(self, name=f"{start}{id_}]", nodeid=nodeid, job=job)
            for id_, nodeid, job in zip(
                ids,
                self._node_ids(run.nodeid, names),
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

    @cached_property
    def named(self) -> str:
        """Its node id, which pytest formats at each access."""
        return self.nodeid

    @cached_property
    def row_lines(self) -> dict[int, LinesOfTask]:
        """Identity of a task's rows, since its name may change → their file and lines,
        for editors."""
        return {}

    _requested: Iterable[str] = ()
    """Fixtures that its documents request besides those of models."""
    per_document = False
    """Whether each document is set up, and not only the first one of the file."""

    def prepare(self, item: DocItem) -> None:
        """Called when a document is set up."""

    @cached_property
    def wants_properties(self) -> bool:
        """Whether a report contains the properties of each document."""
        config = self.config
        if config.getoption("report_log", None) or writes_rows(config):
            return True
        every = config.stash[OPTIONS].junit == "docs"
        return every and bool(config.getoption("xmlpath", None))

    @cached_property
    def score_hook(self) -> Any:
        """``pytest_evals_score`` if a user implements it for this folder, else None."""
        hook = self.ihook.pytest_evals_score
        return hook if hook.get_hookimpls() else None

    def model_definition(self, item: DocItem) -> Definition:
        """Return the model fixtures of this file's documents without executing them."""
        if self._definition is None:
            found = self.fixtureinfo(item).name2fixturedefs
            self._definition = Definition(
                found["eval_model"][-1], found["eval_judge"][-1]
            )
        return self._definition

    def fixtureinfo(self, item: DocItem) -> Any:
        """Return the fixture info that all documents of this file share."""
        if not hasattr(self, "_fixtureinfo"):
            names = dict.fromkeys(("eval_model", "eval_judge", *self._requested))
            self._fixtureinfo = fixtures_named(names, item)
        return self._fixtureinfo


def fixtures_named(names: Iterable[str], item: pytest.Item) -> Any:
    """Return pytest's information about fixtures that an item requests by name.

    pytest has no public API for fixtures of an item that is not a function; doctest
    uses the same private one.
    """

    def requesting() -> None:
        pass

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kind) for name in names]
    vars(requesting)["__signature__"] = inspect.Signature(parameters)
    manager: Any = item.session._fixturemanager
    return manager.getfixtureinfo(node=item, func=requesting, cls=None)


def marks_of(task: Task) -> list[pytest.Mark]:
    """Return a task's tags as markers of its documents and gates."""
    return [pytest.Mark(tag, (), {}, _ispytest=True) for tag in task.tags]


_NO_SCORE = frozenset({"error", "unscored"})


_CONTAINERS: Mapping[str, Callable[[Any], Any]] = {
    "keywords": NodeKeywords,
    "own_markers": lambda item: marks_of(item.job.task),
    "extra_keyword_matches": lambda item: {  # the groups of its task, for ``-k``
        *item.parent.group_names.get(item.job.task.name, ())
    },
    "stash": lambda item: pytest.Stash(),
    "user_properties": lambda item: [],
    "_report_sections": lambda item: [],
}
"""Containers of an item, and how each is created."""


def _is_initial(item: DocItem, name: str, value: Any) -> bool:
    """Whether nobody has changed a container since it was created."""
    if name == "keywords":  # only its own name, next to those of the nodes above
        return len(getattr(value, "_markers", (1, 2))) == 1
    if name in ("own_markers", "extra_keyword_matches"):
        return bool(value == _CONTAINERS[name](item))
    return not len(value)


class EvalItem(pytest.Item):
    """A document or a gate."""

    __slots__ = ("word",)
    in_package = False

    word: str  # its result or verdict in reports: ``correct``, ``wrong``, ``scored``, …

    @property
    def place(self) -> Place:
        """Where its task or gate is defined, for messages."""
        raise NotImplementedError

    def mark(self, report: pytest.TestReport) -> None:
        """Add the result to a report. A skipped one points at the task file instead of
        our code."""
        if isinstance(report.longrepr, tuple):
            place = self.place
            report.longrepr = (str(place.path), place.line, report.longrepr[2])
        if report.when == "call":
            vars(report)["evals_word"] = self.word

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Return the message of our errors, without traceback."""
        shown = messages.message_of(excinfo.value, self, self.place)
        return shown or super().repr_failure(excinfo, style)


class DocItem(EvalItem):
    """One document of a task, with containers on demand."""

    __slots__ = ("_containers", "job", "packed", "shown", "took_s")
    obj = None
    fixturenames: tuple[str, ...] = ()
    parent: EvalFile

    def __init__(self, *, job: Job, **kwargs: Any) -> None:
        self._containers: dict[str, Any] | None = None
        super().__init__(**kwargs)
        self._containers = None  # those that pytest creates
        self.job, self.word = job, ""
        self.packed: bytes | None = None
        """Its serialized record, on a worker of pytest-xdist."""
        self.took_s = 0.0
        """Its share of the model's time and its own scoring, in seconds."""
        self.shown: Sequence[str] = ()
        """Prompt, answer and target as lines, if the terminal shows them."""

    def release(self) -> None:
        """Release what is not needed once its report is made: its packed record, and
        containers that nobody has changed."""
        self.packed = None
        if self._containers is not None:
            changed = {
                name: value
                for name, value in self._containers.items()
                if not _is_initial(self, name, value)
            }
            self._containers = changed or None

    @property
    def _fixtureinfo(self) -> Any:
        # --fixtures-per-test expects a function for each item with fixtures.
        if self.config.getoption("show_fixtures_per_test"):
            return None
        return self.parent.fixtureinfo(self)

    @property
    def location(self) -> tuple[str, int, str]:
        """File, line of its row or task, and name. The path is not resolved again for
        each document."""
        task, index = self.job.task, self.job.index
        found = self.parent.row_lines[id(task.rows)]
        of_task = max(task.source.line - 1, 0)
        line = found.lines[index] if index < len(found.lines) else of_task
        return (found.file, line, self.name)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Its location with the whole path, and the heading of a failure."""
        file, line, name = self.location
        return self.config.rootpath / file, line, name

    @property
    def place(self) -> Place:
        """Where its task is defined."""
        return Place(self.path, self.job.task.source.line)

    def setup(self) -> None:
        """Open the model at the first document that needs it. Documents of merged
        parts need none."""
        self.funcargs: dict[str, Any] = {}
        is_merged = self.parent.evals.merged is not None
        if not (is_merged or self.config.getoption("setuponly", False)):
            self.parent.evals.models.ensure(self)
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
        if fails or self.parent.wants_properties:
            self.user_properties += messages.document_properties(record, self.word)
        if fails:
            raise messages.DocumentFailed(record)
        if session.document_lines is not None:
            self.shown = session.document_lines(self, record)

    def mark(self, report: pytest.TestReport) -> None:
        """Add the result to a report, and the data that the controller or the terminal
        needs."""
        super().mark(report)
        fields = vars(report)
        fields["evals_is_document"] = True
        if report.skipped and report.when == "setup":
            fields["evals_collection"] = self.parent.evals.news_once()
        if report.when == "call":
            report.duration = self.took_s
            if self.packed is not None:
                fields["evals_record"] = self.packed
            if self.word == "unsent":
                evals = self.parent.evals
                fields["evals_unsent"] = evals.all.index(evals), self.job.task.name
            if self.shown:
                fields["evals_shown"] = self.shown

    def _traceback_filter(self, excinfo: ExceptionInfo[BaseException]) -> Traceback:
        """Shorten the traceback; not called with ``--full-trace``."""
        return messages.users_traceback(excinfo)


def _attribute(name: str, create: Callable[[Any], Any]) -> property:
    """Return the attribute for a container."""

    def read(item: DocItem) -> Any:
        containers = item._containers
        if containers is None:
            containers = item._containers = {}
        if name not in containers:
            containers[name] = create(item)
        return containers[name]

    def write(item: DocItem, value: Any) -> None:
        if item._containers is None:
            item._containers = {}
        item._containers[name] = value

    return property(read, write)


for _name, _create in _CONTAINERS.items():
    setattr(DocItem, _name, _attribute(_name, _create))
# pytest's alias of the stash, which it sets in the constructor.
DocItem._store = property(lambda item: item.stash, lambda item, value: None)  # type: ignore[assignment]


_VS_CODE = "vscode_pytest"
"""Plugin of VS Code, which opens the file of a test's node at the line of the test."""


class LinesOfTask(NamedTuple):
    """Where the rows of a task are: a file relative to the rootdir, and the line of
    each row, counted from 0; no lines if the line of the task is used."""

    file: str
    lines: Sequence[int]


def lines_of(task: Task, path: Path, nodeid: str, config: pytest.Config) -> LinesOfTask:
    """Return where the rows of a task are; ``path`` and ``nodeid`` are those of its
    node. For VS Code, rows of another file have the line of the task."""
    file, numbers = task.row_lines() if task.row_lines is not None else (path, ())
    lines = tuple(number - 1 for number in numbers)
    if file == path or not lines or config.pluginmanager.hasplugin(_VS_CODE):
        return LinesOfTask(nodeid, lines if file == path else ())
    return LinesOfTask(bestrelpath(config.rootpath, file), lines)


def release(items: Iterable[pytest.Item]) -> None:
    """Release the documents among items that are selected."""
    for item in items:
        if isinstance(item, DocItem):
            item.release()
