"""``--evals-save`` and ``--evals-compare``: this run as a baseline, and beside one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.results.baseline import Baseline
from pytest_evals.reports.escape import near
from pytest_evals.reports.terminal.comparison import comparison_lines
from pytest_evals.run.baselines import stored_run
from pytest_evals.run.comparison import (
    anchor_lines,
    compared,
    failure_of,
    saved,
    setting_faults,
)
from pytest_evals.store.baselines import find_baseline

if TYPE_CHECKING:
    from pytest_evals.core.gate import Verdict
    from pytest_evals.core.result import RunResult
    from pytest_evals.plugin.session import EvalSession

__all__ = ["Comparing"]


class Comparing:
    """The hooks of such a session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        """Read the baseline; the options have seen that it is there.

        Raises:
            StoreError: It cannot be read any more.
        """
        self._session = session
        self._name = session.options.compare
        self._told: list[tuple[str, bool]] = []
        self._xfailed: list[str] = []
        if self._name:
            here = session.config.invocation_params.dir
            run = find_baseline(session.options.dir, self._name, here)
            session.baseline = Baseline(run)

    @pytest.hookimpl
    def pytest_collection_finish(self) -> None:
        """Refuse what can be known to differ before a model is opened.

        Raises:
            pytest.UsageError: Other shots, another limit, version, judge or way to ask.
        """
        session = self._session
        if session.baseline is None or session.orders is not None:
            return
        sizes = [(run.task, len(run.ids)) for run in session.runs.values()]
        faults = setting_faults(session.baseline.run, sizes, session.options.judge)
        if faults:
            raise pytest.UsageError(
                f"--evals-compare={self._name}: this run is not comparable\n  "
                + "\n  ".join(faults)
            )

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare, then save; a wish that cannot be met is a failure."""
        if self._session.found is None or self._session.orders is not None:
            return
        try:
            self._finish()
        except StoreError as error:
            self._told.append((str(error), True))
        failed = any(is_bad for _, is_bad in self._told)
        found = self._session.found.comparison
        refused = found is not None and found.refused
        if (failed or refused) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _finish(self) -> None:
        path = self._session.samples.path
        if path is None or self._session.samples.error:
            raise StoreError("this run is not on the disk, so it is no baseline")
        options, result = self._session.options, self._session.found
        assert result is not None
        if self._session.baseline is not None:
            found = compared(self._name, self._session.baseline.run, path)
            self._session.found = replace(result, comparison=found)
        if options.save:
            self._save(path, result)

    def _save(self, path: Path, result: RunResult) -> None:
        options = self._session.options
        failure = failure_of(result, self._is_missing, self._is_excused)
        place = saved(
            options.dir,
            options.save,
            path,
            result,
            failure="" if options.save_failed else failure,
            consent="--evals-save-failed",
        )
        text = f"baseline: {near(place, self._session.config.invocation_params.dir)}"
        if failure:
            text += f" (of a failed run: {failure})"
        self._told.append((text, False))
        self._told += [(line, False) for line in anchor_lines(options.save, result)]

    def _is_missing(self, name: str) -> bool:
        here = self._session.config.invocation_params.dir
        return isinstance(stored_run(self._session.options.dir, name, here), str)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the gates that were expected to fail."""
        if report.skipped and hasattr(report, "wasxfail"):
            self._xfailed.append(report.nodeid)

    def _is_excused(self, verdict: Verdict) -> bool:
        end = f"::{verdict.gate.task}::{verdict.gate.id}"
        return any(nodeid.endswith(end) for nodeid in self._xfailed)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """The changes; and where the baseline is."""
        found = self._session.found.comparison if self._session.found else None
        if found is not None:
            terminalreporter.write_sep("=", f"compared with {found.name}")
            width = terminalreporter._tw.fullwidth
            for line in comparison_lines(found, width):
                terminalreporter.write_line(line.text, **line.markup)
        for text, is_bad in self._told:
            write_text(terminalreporter, text, red=is_bad, bold=is_bad)
