"""The hooks of a session with eval files."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks
from pytest import TerminalReporter

from pytest_evals.masking.registry import hidden
from pytest_evals.plugin import collected_items, own_documents
from pytest_evals.plugin.checks.session import (
    check_parameters,
    check_session,
    run_reference_models,
)
from pytest_evals.plugin.documents import (
    DocItem,
    EvalItem,
    Status,
    release,
    status_of,
)
from pytest_evals.plugin.execution.model_readiness import ModelReadiness
from pytest_evals.plugin.gates import GateCoverage, GateItem
from pytest_evals.plugin.junit import JUnitReport
from pytest_evals.plugin.messages import GateFailed, message_of
from pytest_evals.plugin.models.progress import Progress
from pytest_evals.plugin.modes.follow_ups import follow_up_line
from pytest_evals.plugin.own_documents import PendingDocuments
from pytest_evals.plugin.reporting import terminal_summary
from pytest_evals.plugin.reporting.prompts import has_news, look, will_ask
from pytest_evals.plugin.result_tests import is_late, rank
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.option_checks import profile_line
from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.plugin.settings.run_options import check_places
from pytest_evals.plugin.suite.lookalike_files import unused_gates_files
from pytest_evals.plugin.workers.serialization import (
    CollectionReport,
    GateMark,
    report_collection,
)
from pytest_evals.store.writable import remove_made

LOOK_S = 0.2  # seconds after which a worker checks again whether the controller stops


class SessionHooks:
    """The hooks, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._sends = False  # whether documents may be sent to a model
        self._looked = 0.0
        self.readiness = ModelReadiness(session)
        self.coverage = [GateCoverage(one) for one in session.all]
        self._made: tuple[Path, ...] = ()  # folders that were created for results
        self._is_verbose = session.config.get_verbosity() > 0
        self._setup_only = session.config.getoption("setuponly", False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Sort items: documents, gates, then tests of the results. Add the documents of
        selected gates."""
        suites = [one.suite for one in self._session.all]
        collected_items.rename(items, suites)
        collected_items.deduplicate(items, suites)
        has_pending = any(isinstance(item, PendingDocuments) for item in items)
        waits = has_pending and not own_documents.is_observed(config, self)
        if not waits:
            items[:] = [*own_documents.all_created(items)]
            items[:0] = collected_items.documents_of_named_gates(config, items)
        # Sort twice: --sw deselects the items before the failed one, so it needs the
        # order in which items run; --ff changes that order.
        self._sort(items)
        collected = list(items)
        gates = frozenset(i.nodeid for i in items if isinstance(i, GateItem))
        self._session.shared.collected_gates = gates
        yield
        if not waits:
            items[:0] = collected_items.documents_of_gates(config, collected, items)
        self._sort(items)
        release(items)
        others = (item for item in items if not isinstance(item, DocItem))
        self._session.shared.has_result_tests = any(map(is_late, others))
        for one in self._session.all:
            if one.stoppable is not None:
                one.stoppable.arrange(items)
        if self._session.assignment is not None:
            gate_items = (item for item in items if isinstance(item, GateItem))
            found = ((gate.nodeid, _mark_of(gate)) for gate in gate_items)
            marks = {nodeid: mark for nodeid, mark in found if mark is not None}
            for one in self._session.all:
                one.news = report_collection(one.suite, marks, gates)
        if waits:
            own_documents.make_lazy(items)

    def _sort(self, items: list[pytest.Item]) -> None:
        session = self._session
        is_worker = session.assignment is not None or bool(session.options.shard)
        # Documents have a fixed rank: there are many.
        items.sort(
            key=lambda item: (
                1 if isinstance(item, DocItem) else rank(item, on_worker=is_worker)
            )
        )
        if self._session.model:
            collected_items.sort_by_model(items, self._session.all)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Check the session and plan its documents; a worker plans its shard."""
        assignment = self._session.assignment
        items = session.items
        self._sends = not self._setup_only and will_ask(session, self._session.options)
        lost = unused_gates_files(session.config, self._session.gates)
        self._session.suite.warn(map(str, lost))
        if assignment is None:
            ids = [item.nodeid for item in items]
            self._session.select(ids)
            check_parameters(self._session)
            for one in self._session.all:
                check_session(one, ids, is_broken=bool(session.testsfailed))
            for one in self._session.all:
                if one.stoppable is not None:
                    one.stoppable.start(ids)
        else:
            positions = assignment.todo
            if positions is None:
                ids = [item.nodeid for item in items]
                shards = self._session.shards(ids, assignment.n)
                positions = shards.shards[assignment.slot]
            items = own_documents.create_own(items, positions)
        if self._session.options.merge:
            return
        by_model: dict[EvalSession, list[DocItem]] = {}
        for item in items:
            if isinstance(item, DocItem):
                by_model.setdefault(item.parent.evals, []).append(item)
        for one in self._session.all:
            one.models.plan(
                by_model.get(one, []),
                assignment.window if assignment else None,
                one.stoppable.wave_of if one.stoppable is not None else None,
            )

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> list[str]:
        """Return the numbers of tasks, documents and gates, the model, and prompts with
        ``--evals-write-out``. Warnings follow after prompts were checked, if documents
        will be sent."""
        lines = terminal_summary.collected_lines(self._session, items)
        if lines:
            lines += profile_line(self._session.options.profile)
        if lines and self._sends and self._session.assignment is None:
            lines += follow_up_line(self._session, items)
        if lines and not self._sends:
            lines += terminal_summary.warning_lines(self._session)
        if not self._session.options.write_out:
            return lines
        from pytest_evals.plugin.reporting.prompts import documents_of, write_out_lines

        return [*lines, *write_out_lines(config, documents_of(items))]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Check prompts, run reference models, and show progress."""
        begins = self._sends and has_news(self._session, session.items)
        if begins:
            self.begin()
        try:
            if begins and self._session.assignment is None:
                ids = [item.nodeid for item in session.items]
                for one in self._session.all:
                    look(one, one.run.inference.look())
                    run_reference_models(one, ids, session.gethookproxy)
            return (yield)
        except (KeyboardInterrupt, pytest.exit.Exception):
            for one in self._session.all:
                one.run.partial = "interrupted"
            raise
        finally:
            self._clear()

    def begin(self) -> None:
        """Prepare the progress line and the results; refuse places that cannot be
        written to."""
        config = self._session.config
        if self._session.assignment is None:
            self._made = check_places(config, self._session.shared.options)
        for one in self._session.all:
            inference = one.run.inference
            one.progress = Progress(config, inference)
            inference.on_answer = one.progress.tick
            inference.answers.on_load = one.progress.loading
        JUnitReport.begin(config)

    def _clear(self) -> None:
        for one in self._session.all:
            if one.progress is not None and one.progress.is_shown:
                one.progress.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Check models before the first test, and obey the controller."""
        self.readiness.before_item(item.session)
        assignment = self._session.assignment
        # A worker has its whole shard, so it looks whether the controller stops.
        if assignment is not None and time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            if Path(assignment.stop).exists():
                item.session.shouldstop = "the session is stopping"
        if not self._session.options.fast_path:
            self._clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add results to pytest's reports of documents and gates; show our errors in
        fixtures without traceback."""
        report = yield
        if isinstance(item, EvalItem):
            item.mark(report)
        if call.excinfo is not None and isinstance(item, DocItem):
            shown = message_of(call.excinfo.value, item, item.place)
            report.longrepr = shown or report.longrepr
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the record that a worker sent, or that a spend cap held its document
        back: gates are judged before the workers end. Clear the progress line before
        the terminal writes."""
        if not hasattr(report, "evals_is_document"):
            for one in self.coverage:
                one.add(report)
        packed = getattr(report, "evals_record", None)
        if packed is not None and self._session.assignment is None:
            self._session.receive(packed)
            vars(report)["evals_record"] = None
        news = getattr(report, "evals_collection", None)
        if news is not None and self._session.assignment is None:
            self._session.all[news[0]].add_collection(CollectionReport(*news[1]))
        unsent = getattr(report, "evals_unsent", None)
        if unsent and isinstance(report.longrepr, tuple):
            why = report.longrepr[2].removeprefix("Skipped: ")
            model, task = unsent
            self._session.all[model].run.inference.hold_back(task, why)
        if self._is_verbose or not getattr(report, "evals_word", ""):
            self._clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Status | None:
        """Count wrong answers in a separate category; they do not fail."""
        return status_of(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the results, even if the session was interrupted."""
        self._clear()
        for one in self._session.all:
            collected_items.keep_failed(session.config, one.run.gate_judge.skipped())
        is_refused = any(one.models.refused for one in self._session.all)
        if is_refused and self._session.assignment is None:
            for one in self._session.all:
                one.run.inference.close()
            remove_made(self._made)
        elif self._session.progress is not None and self._session.assignment is None:
            for one, coverage in zip(self._session.all, self.coverage, strict=True):
                if one.is_selected:
                    finish(one, session, coverage)
        elif self._session.progress is not None:
            report_worker(self._session)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Write the table of results."""
        for one in self._session.all:
            if one.run.result is not None and not terminalreporter.no_summary:
                terminal_summary.write_summary(one, terminalreporter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Restore pytest's JUnit plugin."""
        JUnitReport.end(config)


def report_worker(evals: EvalSession) -> None:
    """Send a worker's models, warnings and repeated runs to the controller."""
    for one in evals.all:
        one.run.inference.close()
    report = {
        "models": [one.run.inference.worker_report() for one in evals.all],
        "warnings": evals.warnings.new(),
        "repeats": evals.shared.repeats.as_json(),
        "cuts": [one.cut for one in evals.all],
    }
    # The controller does not know secrets that only a worker has seen.
    evals.config.workeroutput["evals"] = hidden(json.dumps(report))  # type: ignore[attr-defined]


def finish(evals: EvalSession, session: pytest.Session, coverage: GateCoverage) -> None:
    """Compute and write the results of a model."""
    run = evals.run
    run.inference.close()
    evals.models.close()
    stopped = session.shouldstop or session.shouldfail
    run.partial = run.partial or run.spend_cap or str(stopped or "")
    run.partial = run.partial or evals.part_of_run
    if run.spend_cap:
        evals.outcome.fail(session, run.spend_cap)
    coverage.mark_verdicts()
    result = run.finish(evals.warnings.all())
    coverage.check(session, result)
    run.writer.flush()
    if is_distributed(evals.config) or run.writer.has_replaced:
        run.writer.sort()
    run.writer.results(
        result, exit_code=int(session.exitstatus), node_ids=evals.suite.node_ids()
    )
    if evals.options.json is not None and not evals.options.compare:
        run.writer.copy(evals.options.json)
    if run.writer.error:
        evals.outcome.fail(session, run.writer.error)


def _mark_of(gate: GateItem) -> GateMark | None:
    """Evaluate the marks as ``_pytest.skipping``: an invalid condition is an error."""
    try:
        skip = evaluate_skip_marks(gate)
        if skip is not None:
            return GateMark(skip.reason, skips=True)
        ignored = gate.config.getoption("runxfail", False)
        xfail = None if ignored else evaluate_xfail_marks(gate)
    except pytest.fail.Exception as error:
        return GateMark(str(error), runs=False, fails=True)
    if xfail is None:
        return None
    return GateMark(
        xfail.reason, runs=xfail.run, strict=xfail.strict, covers=_covers(xfail.raises)
    )


def _covers(raises: object) -> bool:
    """Whether ``xfail`` covers a failed gate; its message is not known here, so
    ``raises`` with a pattern does not match."""
    if raises is None:
        return True
    if isinstance(raises, type | tuple):
        return issubclass(GateFailed, raises)
    matches = getattr(raises, "matches", None)  # pytest.RaisesExc, pytest.RaisesGroup
    failed = GateFailed.__new__(GateFailed)  # without a verdict, as none is known
    return matches is not None and bool(matches(failed))
