"""Runs documents with one report each, and many in one call of the protocol.

Only documents between two documents of the same file take this path. The first and the
last document of a file run through pytest's own protocol, so that fixtures are set up
and torn down, and other plugins' hooks for these phases are called.
"""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TextIO, TypeGuard

import pytest

from pytest_evals.plugin import secrets
from pytest_evals.plugin.documents import DocItem, EvalFile
from pytest_evals.plugin.execution.fast_path.hook_calls import (
    HookCalls,
    Part,
    hook_calls,
    is_foreign,
)
from pytest_evals.plugin.execution.fast_path.report_batches import ReportBatches
from pytest_evals.plugin.junit import outcomes_with_teardown

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

SHARED = 64  # documents that share one call of ``pytest_runtest_protocol``, at most
_RAISED = (pytest.exit.Exception, KeyboardInterrupt)  # exceptions that end the session
_PYTEST_MARKS = ("skip", "skipif", "xfail")
"""Markers that only pytest's own protocol applies."""
ALLOCATIONS = 20_000
"""New objects between two collections of the youngest generation. With the usual
hundreds, collections take a tenth of the plugin's time."""
YOUNGER = 100  # collections of a generation between two of the next older one

REPORT_LEAKS = frozenset({"jaxlib", "mlx", "triton"})
"""Libraries made with nanobind, which reports frozen objects as leaks at exit. triton
comes with torch for CUDA."""


class FastPath:
    """The hooks of the fast path, as a pytest plugin."""

    def __init__(self, session: EvalSession, hooks: object) -> None:
        """``hooks``: the plugin that stores records and clears the progress line."""
        config = session.config
        self._needless: tuple[object, ...] = (self, secrets)
        """Plugins that need no report of a document that passed without output: its
        record is kept, and it has neither text to mask nor a line to write."""
        if config.get_verbosity() <= 0:
            self._needless += (hooks,)
        self._session = session
        self._active: EvalFile | None = None
        self._following: list[pytest.Item] = []
        """Items that may run in the same call of the protocol."""
        self._n_run = 0  # items that the last call has run
        assignment = session.assignment
        self.batches = (
            ReportBatches(config, assignment) if assignment is not None else None
        )
        self._capture = DocumentCapture(config)
        self._setup_only = config.getoption("setuponly", False)
        self._with_teardown = outcomes_with_teardown(config)
        self._collections = ReducedGarbageCollection()
        for one in session.all:
            one.run.inference.answers.importing = self._collections.importing

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all items as ``_pytest.main.pytest_runtestloop`` does, with up to
        ``SHARED`` documents in one call of the protocol.

        The wrappers of pytest around a test (warnings, assertions, faulthandler) cost
        as much as scoring a document. A warning names the first document of the call.
        If another plugin or a conftest implements the protocol or the loop
        (pytest-timeout, an IDE, pytest-xdist), pytest's loop runs instead.
        """
        config, items = session.config, session.items
        if session.testsfailed or config.option.collectonly:
            return None
        if _is_observed(config):
            return None
        position = 0
        while position < len(items):
            item, *following = items[position : position + SHARED + 1]
            self._following = following
            config.hook.pytest_runtest_protocol(
                item=item, nextitem=following[0] if following else None
            )
            position += self._n_run
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run a document, and those that follow it in the same call.

        Any other item is left to pytest. A plugin with its own protocol, such as
        pytest-rerunfailures, comes first.
        """
        self._n_run = 1
        batches = self.batches
        if batches is not None:
            batches.send_if_slow()
        if not self._is_between_documents(item, nextitem):
            if batches is not None:
                batches.send()
            return None
        if self._ran_elsewhere(item, nextitem):
            return True
        if batches is not None:
            added = [(batches.add, slice(None))]
            self._run(item, added, added)
            return True
        with _without_path(item.config):
            calls = hook_calls(item.config, self._needless)
            self._log_and_run(item, calls)
            for document, then in pairwise(self._following):
                stops = item.session.shouldfail or item.session.shouldstop
                if stops or not self._is_between_documents(document, then):
                    break
                self._log_and_run(document, calls)
                self._n_run += 1
        return True

    def _is_between_documents(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> TypeGuard[DocItem]:
        """Whether the items before and after are documents of the same file."""
        if not isinstance(item, DocItem):
            self._active = None
            return False
        parent = item.parent
        has_next = isinstance(nextitem, DocItem) and nextitem.parent is parent
        is_first = self._active is not parent
        is_set_up = is_first or not has_next or self._setup_only or parent.per_document
        if is_set_up or _has_pytest_mark(item):
            self._active = parent if has_next else None
            for one in self._session.all:
                if one.progress is not None:
                    one.progress.clear()
            return False
        return True

    def _ran_elsewhere(self, item: DocItem, nextitem: pytest.Item | None) -> bool:
        """Whether another plugin has run the item."""
        run = self._protocol_of_others
        if run is None:
            return False
        if self.batches is not None:
            self.batches.send()
        return bool(run(item=item, nextitem=nextitem))

    @cached_property
    def _protocol_of_others(self) -> Callable[..., object] | None:
        """Calls the protocols of other plugins instead of ours and pytest's; ``None``
        if missing. Wrappers are around ours in any case."""
        config = self._session.config
        impls = config.hook.pytest_runtest_protocol.get_hookimpls()
        theirs = [
            impl.plugin
            for impl in impls
            if not (impl.wrapper or impl.hookwrapper) and is_foreign(impl.plugin)
        ]
        if not theirs:
            return None
        rest = [impl.plugin for impl in impls if impl.plugin not in theirs]
        name = "pytest_runtest_protocol"
        return config.pluginmanager.subset_hook_caller(name, rest)

    def _log_and_run(self, item: DocItem, calls: HookCalls) -> None:
        nodeid, location = item.nodeid, item.location
        place = nodeid, location
        for call, part in calls.logstart:
            call(*place[part])
        self._run(item, calls.logreport, calls.logreport_of_silent)
        for call, part in calls.logfinish:
            call(*place[part])

    def _run(
        self, item: DocItem, receivers: Sequence[Part], of_silent: Sequence[Part]
    ) -> None:
        self._capture.start()
        try:
            call = pytest.CallInfo.from_call(item.runtest, "call", reraise=_RAISED)
        finally:
            sections = self._capture.stop()
        report = pytest.TestReport.from_item_and_call(item, call)
        report.sections += sections
        item.mark(report)
        has_text = report.sections or report.user_properties or item.shown
        if call.excinfo is None and not has_text:
            receivers = of_silent
        for receive, part in receivers:
            receive(*(report,)[part])
        if call.excinfo is not None and not report.skipped:
            item.ihook.pytest_exception_interact(node=item, call=call, report=report)
        if report.outcome in self._with_teardown:
            teardown = _teardown_report(report)
            for receive, part in receivers:
                receive(*(teardown,)[part])
        item.release()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pass on the reports of the same batch of a worker, before the last one."""
        earlier = vars(report).pop("evals_earlier", ())
        if earlier:
            logreport = hook_calls(self._session.config).logreport
            for one in earlier:
                vars(one)["node"] = report.node
                for call, part in logreport:
                    call(*(one,)[part])

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Restore the garbage collector."""
        self._collections.end()


def _is_observed(config: pytest.Config) -> bool:
    """Whether another plugin implements the loop or the protocol of a test, or pytest
    limits the time of each test."""
    has_timeout = config.pluginmanager.hasplugin("faulthandler")  # which adds the ini
    if has_timeout and float(config.getini("faulthandler_timeout") or 0) > 0:
        return True
    hooks = (config.hook.pytest_runtest_protocol, config.hook.pytest_runtestloop)
    impls = [impl for hook in hooks for impl in hook.get_hookimpls()]
    return any(is_foreign(impl.plugin) for impl in impls)


def _has_pytest_mark(item: DocItem) -> bool:
    """Whether a document, or a node above it, has a marker that pytest applies."""
    nodes: list[pytest.Item | pytest.Collector] = [item]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    marks = (mark.name for node in nodes for mark in node.own_markers)
    return any(name in _PYTEST_MARKS for name in marks)


@contextmanager
def _without_path(config: pytest.Config) -> Iterator[None]:
    """Keep pytest's terminal from repeating the path of the file after the progress
    line; the first document of the file has shown it."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    shows = terminal is not None and terminal.showfspath
    if shows:
        terminal.showfspath = False
    try:
        yield
    finally:
        if shows:
            terminal.showfspath = True


def _teardown_report(report: pytest.TestReport) -> pytest.TestReport:
    """Return the report of a teardown, for plugins that write a test only then (JUnit,
    pytest-html); there was none."""
    teardown = pytest.TestReport(
        nodeid=getattr(report, "id", None) or report.nodeid,  # pytest 9.2 has it parsed
        location=report.location,
        keywords=report.keywords,
        outcome="passed",
        longrepr=None,
        when="teardown",
        start=report.stop,
        stop=report.stop,
        user_properties=report.user_properties,
    )
    vars(teardown)["evals_is_document"] = True
    return teardown


class ReducedGarbageCollection:
    """Raises the thresholds for as long as a session lasts."""

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()
        new, middle, old = self._thresholds
        if new:  # collection is on
            gc.set_threshold(max(ALLOCATIONS, new), max(YOUNGER, middle), old)

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Import a model's libraries without collections, and exclude the hundred
        thousands of objects that they create from all later ones."""
        # Weights that are there already must stay collectable.
        if "torch" in sys.modules or not gc.isenabled():
            yield
            return
        gc.collect()  # garbage would be excluded too
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
        gc.freeze()

    def end(self) -> None:
        """Restore the thresholds, and exclude all objects that survive a collection, so
        that the interpreter ends without scanning each item and report."""
        gc.set_threshold(*self._thresholds)
        if REPORT_LEAKS.intersection(sys.modules):
            gc.unfreeze()
        else:
            gc.collect()
            gc.freeze()


Section = tuple[str, str]  # heading and text, as in ``report.sections``


class _Bytes(io.BytesIO):
    """Records whether it was written to or closed."""

    is_touched = False

    def write(self, data: Any, /) -> int:
        self.is_touched = True
        return super().write(data)

    def close(self) -> None:
        self.is_touched = True
        super().close()


class _Stream(io.TextIOWrapper):
    """Keeps what is written in memory. Its file descriptor is that of the stream that
    it replaces, for child processes."""

    def __init__(self, descriptor: int) -> None:
        self.bytes = _Bytes()
        super().__init__(self.bytes, "utf-8", "replace", "", write_through=True)
        self._descriptor = descriptor

    @property
    def text(self) -> str:
        """Everything that was written; empty if the stream was closed."""
        return "" if self.closed else self.bytes.getvalue().decode("utf-8", "replace")

    def fileno(self) -> int:
        return self._descriptor


class DocumentCapture:
    """Replaces both standard streams while a document runs, unless ``-s`` is given.

    pytest suspends its own capture between tests, and resuming it for each document
    would duplicate file descriptors twice.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._is_on = config.getoption("capture", "no") in ("fd", "sys")
        self._streams: tuple[_Stream, _Stream] = (_Stream(1), _Stream(2))
        self._replaced: tuple[TextIO, TextIO] | None = None

    def start(self) -> None:
        """Replace the streams."""
        if self._is_on:
            self._replaced = sys.stdout, sys.stderr
            sys.stdout, sys.stderr = self._streams

    def stop(self) -> Sequence[Section]:
        """Restore the streams, and return what was written."""
        if self._replaced is None:
            return ()
        sys.stdout, sys.stderr = self._replaced
        self._replaced = None
        out, err = self._streams
        if not (out.bytes.is_touched or err.bytes.is_touched):
            return ()
        self._streams = (_Stream(1), _Stream(2))
        texts = {"Captured stdout call": out.text, "Captured stderr call": err.text}
        return [(heading, text) for heading, text in texts.items() if text]
