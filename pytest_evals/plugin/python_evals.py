"""Evals in Python modules: their nodes, and the fixtures that they request."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest.fixtures import FixtureLookupError, TopRequest
from _pytest.mark.structures import get_unpacked_marks

from pytest_evals.core.task import Task
from pytest_evals.dialects.detect import raw_of
from pytest_evals.dialects.native.python import Eval
from pytest_evals.dialects.native.scorers import fixtures_of_scorers
from pytest_evals.dialects.native.task import eval_task
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError, did_you_mean
from pytest_evals.plugin.documents import DocItem, fixtures_named
from pytest_evals.plugin.execution.start import start
from pytest_evals.plugin.messages import users_traceback
from pytest_evals.plugin.models.compatibility import refuse_early
from pytest_evals.plugin.nodes import TaskFile
from pytest_evals.plugin.parameter_sets import parameter_sets
from pytest_evals.plugin.session import session_of
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.suite import unreachable_evals
from pytest_evals.plugin.suite.eval_files import is_test_file, matches
from pytest_evals.plugin.suite.file_nodes import Node, node_of, root_node
from pytest_evals.plugin.suite.lookalike_files import warn
from pytest_evals.run.suite import TaskRun
from pytest_evals.scorers.functions import ARGUMENTS, FunctionScorer
from pytest_evals.scorers.user_code import user_fault

_CASE_SCOPES = ("session", "package", "module")
"""Scopes of fixtures that cases may request: collection has no test yet."""
_SYNC = "define it without async, and call asyncio.run()"
_EVAL = re.compile(rb"\beval\b")


def collect_eval(module: pytest.Collector, found: Eval) -> list[Node]:
    """The documents and gates of an eval, as children of its module.

    Problems of the eval belong to a separate node, so that the other tests of the
    module are collected.
    """
    start(module.config)
    if not isinstance(module, pytest.Module):
        text = f"the eval {found.name!r} is in a class"
        fix = "define evals at the top of a module"
        raise module.CollectError(str(Problem(text, found.place, fix)))
    if _is_collected_elsewhere(found, module):
        return []
    try:
        nodes: list[Node] = []
        of_first: EvalNode | None = None
        for one in session_of(module.config).all:
            node = EvalNode.from_parent(
                module,
                path=module.path,
                name=module.name,
                nodeid=module.nodeid,
                evals=one,
                definition=found,
            )
            nodes += node.items(of_first)
            of_first = of_first or node
        return nodes
    except (EvalsError, pytest.fail.Exception, pytest.skip.Exception) as fault:
        name, nodeid = found.name, f"{module.nodeid}::{found.name}"
        error: BaseException = fault
        if isinstance(fault, pytest.fail.Exception):
            error = EvalsError(str(Problem(f"{name}: {fault.msg}", found.place)))
        return [
            FailedEval.from_parent(
                module, path=module.path, name=name, nodeid=nodeid, error=error
            )
        ]


def add_unreachable_evals(module: pytest.Module, report: pytest.CollectReport) -> None:
    """Add errors for the evals of a module that pytest cannot collect."""
    names = vars(module.obj)
    if not has_evals(module.path):
        return
    problems = [
        *unreachable_evals.replaced_evals(names),
        *unreachable_evals.nested_evals(module.path, names),
    ]
    try:
        for problem in unreachable_evals.unnamed_evals(names):
            warn(problem)
    except pytest.PytestCollectionWarning:  # where warnings are errors
        problems += unreachable_evals.unnamed_evals(names)
    for problem in problems:
        nodeid, error = f"{module.nodeid}::{problem.where}", TaskFileError([problem])
        node = FailedEval.from_parent(
            module, path=module.path, name=module.name, nodeid=nodeid, error=error
        )
        report.result = [*(report.result or ()), node]


def has_evals(path: Path) -> bool:
    """Whether a Python file may define evals: it contains the package's name and the
    decorator's."""
    raw = raw_of(path)
    return b"pytest_evals" in raw and _EVAL.search(raw) is not None


def load_module(path: Path, config: pytest.Config) -> None:
    """Add the evals of a test module to the suite of a controller of pytest-xdist,
    which does not collect; raise problems that workers did not find."""
    session = cast("Any", config.pluginmanager.getplugin("session"))
    folders = session_of(config).shared.folders
    _, file = node_of(path, root_node(session, folders), folders)
    if not isinstance(file, pytest.Module):
        return
    report, _ = session._collect_one_node(file)
    if not report.passed:
        raise TaskFileError([Problem(str(report.longrepr), Place(path))])
    for node in report.result:
        if isinstance(node, FailedEval) and not node.is_skipped:
            raise TaskFileError([Problem(str(node.error), node.place)])


def _is_collected_elsewhere(found: Eval, module: pytest.Collector) -> bool:
    """Whether an imported eval is collected from the module that defines it."""
    path = found.place.path
    if path == module.path:
        return False
    if is_test_file(path, module.config) or matches(
        path, module.config.stash[OPTIONS].python_files
    ):
        return True
    if not has_evals(module.path):
        text = f"the eval {found.name!r} is imported by {module.path.name}"
        fix = f"rename {path.name} to test_{path.name}, so that pytest collects it"
        raise pytest.Collector.CollectError(str(Problem(text, found.place, fix)))
    return False


class FailedEval(pytest.Collector):
    """An eval with problems, or one that is skipped by its cases or their fixtures."""

    def __init__(self, *, error: BaseException, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    @property
    def is_skipped(self) -> bool:
        """Whether the eval is skipped."""
        return isinstance(self.error, pytest.skip.Exception)

    @property
    def place(self) -> Any:
        """Where the problem is."""
        problems = getattr(self.error, "problems", ())
        return problems[0].where if problems else self.path

    def collect(self) -> Iterable[pytest.Item]:
        """Raise the error as one of collection, without a traceback."""
        if self.is_skipped:
            raise self.error
        raise self.CollectError(str(self.error))


class EvalNode(TaskFile):
    """The parent of an eval's documents and gates; not collected itself."""

    def __init__(self, *, definition: Eval, **kwargs: Any) -> None:
        """Apply the markers of the function."""
        super().__init__(**kwargs)
        self.eval = definition
        self.own_markers.extend(get_unpacked_marks(definition))
        self.keywords.update((mark.name, mark) for mark in self.own_markers)
        self.add_marker("evals")
        self._requested: Mapping[str, list[FunctionScorer]] = {}
        """Fixtures of scorers, which documents request with those of models."""
        self._tasks: Sequence[Task] = ()
        self.parameters: Mapping[str, Any] = {}
        """Parameters of the function of cases, which are not fixtures."""
        self.per_document = False
        """Whether scorers request fixtures with the scope function or class, so that
        each document is set up."""

    def items(self, of_first: EvalNode | None = None) -> list[Node]:
        """Documents and gates. ``of_first``: the node of the first of several models,
        whose cases this one shares.

        Raises:
            EvalsError: The eval has problems.
        """
        if of_first is None:
            self._tasks = self._read()
        else:
            self._tasks, self._requested = of_first._tasks, of_first._requested
            self.parameters = of_first.parameters
            self.per_document = of_first.per_document
        session = self.evals
        nodes: list[Node] = []
        gates: list[pytest.Collector] = []
        assert self.parent is not None
        for run in session.suite.add(self._tasks, self.path, self.parent.nodeid):
            assert isinstance(run, TaskRun)
            known = session.evals.setdefault(run.nodeid, self)
            if session.deduplication.take(run, known):
                nodes += self.collected_documents(run)
                gates += self.gates(run)
        return [*nodes, *gates]

    def _read(self) -> Sequence[Task]:
        """Return a task for each parameter set; none if the eval is not selected."""
        if any(mark.name == "usefixtures" for mark in self.own_markers):
            text = "the marker 'usefixtures' is not supported"
            self.refuse(text, "request fixtures as arguments")
        session, found = self.evals, self.eval
        options = session.task_options
        if not options.takes([found.name, *found.settings.tags]):
            return ()
        refuse_early(self.config, session.tested)
        variants = parameter_sets(self, found, self.refuse)
        self.parameters = variants[0].values
        values = _case_fixtures(self)
        every = [found.parts(options, values, one) for one in variants]
        self._requested = fixtures_of_scorers([s for one in every for s in one.scorers])
        for name, scorers in self._requested.items():
            scope = self.fixture_scope(name, f"the scorer {scorers[0].name!r}")
            self.per_document |= scope in ("function", "class")
        tasks = [
            replace(
                eval_task(replace(parts, begins_early=not self.per_document), options),
                variant=one.id,
            )
            for one, parts in zip(variants, every, strict=True)
        ]
        share = session.shared.prompts.shared_task
        return [*map(share, tasks)] if session.model else tasks

    def prepare(self, item: DocItem) -> None:
        """Set the values of the scorers' fixtures."""
        if not self._requested:
            return
        request = TopRequest(cast("Any", item), _ispytest=True)
        for name, scorers in self._requested.items():
            value = request.getfixturevalue(name)
            if fault := _async_fault(name, value):
                pytest.fail(f"{item.name}: {fault}\n  fix: {_SYNC}", pytrace=False)
            for scorer in scorers:
                scorer.values[name] = value

    def fixture_scope(self, name: str, user: str) -> str:
        """The scope of a fixture; refuse one that does not exist or has parameters."""
        if name == "request":
            return "function"
        manager = self.session._fixturemanager
        definitions = manager.getfixturedefs(name, self)
        if not definitions:
            self.refuse(
                f"{user} uses the fixture {name!r}, which does not exist"
                + did_you_mean(name, ARGUMENTS if "scorer" in user else ()),
                "list the fixtures: pytest --fixtures",
            )
        assert definitions is not None
        if definitions[-1].params is not None:
            self.refuse(
                f"{user} uses the fixture {name!r}, which has parameters",
                "yield a case for each parameter",
            )
        return str(definitions[-1].scope)

    def refuse(self, message: str, fix: str = "") -> None:
        """Raise a problem of this eval."""
        problem = Problem(f"{self.eval.name}: {message}", self.eval.place, fix)
        raise TaskFileError([problem])


def _case_fixtures(node: EvalNode) -> Mapping[str, Any]:
    """Values of the fixtures that a function of cases requests.

    They are set up during collection. Those with the scope session are torn down after
    the last test, others at once.
    """
    names = [one for one in node.eval.fixtures if one not in node.parameters]
    if not names:
        return {}
    with _set_up(node, names) as request:
        return {name: _case_fixture(node, request, name) for name in names}


def _case_fixture(node: EvalNode, request: TopRequest, name: str) -> Any:
    scope = node.fixture_scope(name, "the case function")
    if scope not in _CASE_SCOPES:
        node.refuse(
            f"the case function uses the fixture {name!r}, whose scope is {scope}",
            "cases are collected before tests run: use the scope session, package "
            "or module",
        )
    try:
        value = request.getfixturevalue(name)
    except FixtureLookupError as error:
        node.refuse(f"the fixture {name!r} is not available: {error.msg}")
    except pytest.fail.Exception as error:
        node.refuse(f"the fixture {name!r}: {error.msg}")
    except Exception as error:  # noqa: BLE001 - of any user code
        entries = users_traceback(pytest.ExceptionInfo.from_exception(error))
        error = error.with_traceback(entries[0]._rawentry)
        node.refuse(user_fault(f"the fixture {name!r}", error))
    if fault := _async_fault(name, value):
        node.refuse(fault, _SYNC)
    return value


def _async_fault(name: str, value: Any) -> str:
    """Why the value of a fixture cannot be used: it is a coroutine or an asynchronous
    generator, which no plugin has run. pytest 9 raises an error itself."""
    if not (inspect.iscoroutine(value) or inspect.isasyncgen(value)):
        return ""
    if inspect.iscoroutine(value):
        value.close()
    return f"the fixture {name!r} is async, and no plugin supports it here"


class _CaseItem(pytest.Item):
    """Requests the fixtures of cases during collection; never runs."""

    obj = None
    fixturenames: tuple[str, ...] = ()

    def __init__(self, *, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.funcargs: dict[str, Any] = {}
        self._fixtureinfo = fixtures_named(names, self)

    def runtest(self) -> None:
        """Never called."""


@contextmanager
def _set_up(node: EvalNode, names: Sequence[str]) -> Iterator[TopRequest]:
    """A request for fixtures during collection.

    There is no public way to set up fixtures without a test that runs.
    """
    item = _CaseItem.from_parent(node, name=node.eval.name, names=names)
    state = node.session._setupstate
    for one in item.listchain()[len(state.stack) :]:
        state.stack[one] = ([one.teardown], None)
    try:
        yield TopRequest(cast("Any", item), _ispytest=True)
    finally:
        state.teardown_exact(cast("Any", node.session))
