"""The hooks that see every test; registered once an eval file was found."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest

from pytest_evals.plugin.doc_reports import (
    Status,
    mark,
    report_of,
    status_of,
    teardown_of,
)
from pytest_evals.plugin.nodes import DocItem, GateItem, TaskFile
from pytest_evals.plugin.progress import Progress
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.summary import collected_lines, write_summary

__all__ = ["Running"]


class Running:
    """One object a session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing runs yet."""
        self._session = session
        self._active: TaskFile | None = None
        self._progress: Progress | None = None
        self._wants_teardown = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Gates run last."""
        items.sort(key=lambda item: isinstance(item, GateItem))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Check what was asked for, and plan it."""
        self._session.check(session)
        self._session.models.plan(i for i in session.items if isinstance(i, DocItem))

    def pytest_report_collectionfinish(self) -> list[str]:
        """Tasks, documents, gates, model."""
        return collected_lines(self._session)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Show progress while documents run."""
        config = session.config
        self._progress = Progress(config, self._session.models)
        self._session.models.tick = self._progress.tick
        plugins = config.pluginmanager
        self._wants_teardown = bool(getattr(config.option, "xmlpath", None)) or any(
            plugins.hasplugin(name) for name in ("html", "pytest_jsonreport")
        )
        try:
            return (yield)
        except (KeyboardInterrupt, pytest.exit.Exception):
            self._session.partial = "interrupted"
            raise
        finally:
            self._progress.clear()

    @pytest.hookimpl
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """The light protocol, for documents with a document of their file on each side.

        The others go through pytest's own, so that what is set up for the file is set
        up once and torn down once.
        """
        if not isinstance(item, DocItem):
            self._active = None
            return None
        sibling = isinstance(nextitem, DocItem) and nextitem.parent is item.parent
        setuponly = item.config.getoption("setuponly", False)
        if self._active is not item.parent or not sibling or setuponly:
            self._active = item.parent if sibling else None
            return None
        hook = item.config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._run(item)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item: DocItem) -> None:
        stop = (pytest.exit.Exception, KeyboardInterrupt)
        call = pytest.CallInfo.from_call(item.runtest, when="call", reraise=stop)
        report = report_of(item, call)
        hook = item.config.hook
        hook.pytest_runtest_logreport(report=report)
        failed = call.excinfo is not None and not report.skipped
        if failed:
            item.ihook.pytest_exception_interact(node=item, call=call, report=report)
        if self._wants_teardown:
            hook.pytest_runtest_logreport(report=teardown_of(report))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell pytest's own reports what became of a document or gate."""
        report = yield
        mark(report, item)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Whatever is written next must not land on the progress line."""
        if self._progress is not None and not getattr(report, "evals_word", ""):
            self._progress.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Status | None:
        """Count wrong answers apart; they do not fail."""
        return status_of(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the results, however the session ended."""
        if not session.config.getoption("collectonly"):
            self._session.close(session)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """The table."""
        if self._session.found is not None and not terminalreporter.no_summary:
            write_summary(self._session, terminalreporter)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Let the interpreter end without looking at each item once more."""
        gc.freeze()
