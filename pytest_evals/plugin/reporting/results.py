"""What is made of a run: it is compared and saved as a baseline; after all other files,
its page and its files in other programs' form are written, and the hook
``pytest_evals_result`` is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest import TerminalReporter

from pytest_evals.errors import StoreError
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.session import EvalSession
from pytest_evals.reports.escape import near, one_line
from pytest_evals.reports.terminal.comparison import comparison_lines
from pytest_evals.store.history import EarlierRun, read_run

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class Exports:
    """Hooks of such a session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._lines: list[tuple[str, bool]] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the files; an error leaves all other results intact."""
        if self._session.run.result is None:
            return
        here = self._session.config.invocation_params.dir
        for name, write in self._writers():
            try:
                line = f"{name}: {near(write(self._run()), here)}"
                self._lines.append((line, False))
            except StoreError as error:
                self._lines.append((f"no {name}: {error}", True))
                self._session.outcome.fail(session, self._lines[-1][0])

    def _run(self) -> EarlierRun:
        writer = self._session.run.writer
        if writer.path is None or writer.error:
            raise StoreError("the results are not on the disk")
        return read_run(writer.path)

    def _writers(self) -> Iterator[tuple[str, Callable[[EarlierRun], Path]]]:
        options = self._session.options
        if options.html is not None:
            yield "report", self._write_html
        if options.export:
            from pytest_evals.result_files.exports import export

            yield "export", partial(export, form=options.export)

    def _write_html(self, run: EarlierRun) -> Path:
        from pytest_evals.reports.html.other_runs import OtherRuns
        from pytest_evals.reports.html.write import write_html

        path = self._session.options.html
        assert path is not None
        baseline = self._session.run.compared
        before = baseline.run if baseline is not None else None
        write_html(run, path, others=OtherRuns(before))
        return path

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Write the paths of the files, or why they are missing."""
        for line, failed in self._lines:
            write_text(terminalreporter, line, red=failed, bold=failed)


class Listeners:
    """Hooks of a session other than a worker's, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._fault = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Call the hook. If it raises, results are kept, and the session fails."""
        result = self._session.run.result
        if result is None:
            return
        try:
            session.config.hook.pytest_evals_result(result=result)
        except Exception as error:  # noqa: BLE001 - user code: any kind
            self._fault = f"pytest_evals_result: {type(error).__name__}: {error}"
            self._session.outcome.fail(session, self._fault)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Report the error of the hook."""
        if self._fault:
            terminalreporter.write_line(one_line(self._fault), red=True, bold=True)


class ComparisonMode:
    """Saves and compares runs, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._lines: list[tuple[str, bool]] = []

    def pytest_collection_finish(self) -> None:
        """Refuse a run that cannot be compared, before a model is opened: other shots,
        limit, version, judge or model interface."""
        if self._session.assignment is not None:
            return
        faults = self._session.run.comparison_faults()
        if faults:
            name = self._session.options.compare
            raise pytest.UsageError(
                f"--evals-compare={name}: this run is not comparable\n  "
                + "\n  ".join(faults)
            )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare, then save; if one of them is not possible, the session fails. A part
        of a run is neither compared nor saved."""
        run, options = self._session.run, self._session.options
        if run.result is None or self._session.assignment is not None:
            return
        try:
            # The summary shows errors of the disk.
            if not run.writer.error and not options.shard:
                run.compare()
                if options.save_baseline:
                    self._save()
        except StoreError as error:
            self._lines.append((str(error), True))
        if options.compare and options.json is not None:
            run.writer.copy(options.json)
        found = run.result.comparison
        refused = found.refused if found is not None else ()
        bad = [text for text, is_bad in self._lines if is_bad]
        for reason in filter(None, (run.writer.error, *bad, *refused)):
            self._session.outcome.fail(session, reason)

    def _save(self) -> None:
        place, (failure, *lines) = self._session.run.save()
        shown = near(place, self._session.config.invocation_params.dir)
        self._lines += [(f"baseline: {shown}{failure}", False)]
        self._lines += [(line, False) for line in lines]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the changes and the baseline's path."""
        result = self._session.run.result
        found = result.comparison if result is not None else None
        if found is not None:
            terminalreporter.write_sep("=", f"compared with {found.name}")
            width = terminalreporter._tw.fullwidth
            brief = terminalreporter.config.get_verbosity() < 0
            for line in comparison_lines(found, width, brief=brief):
                terminalreporter.write_line(line.text, **line.markup)
        for text, is_bad in self._lines:
            write_text(terminalreporter, text, red=is_bad, bold=is_bad)
