"""``--evals-html`` and ``--evals-export``: the page of this run and its files in other
programs' form, written after all other files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.plugin.messages import write_text
from pytest_evals.reports.escape import near
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
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Write the paths of the files, or why they are missing."""
        for line, failed in self._lines:
            write_text(terminalreporter, line, red=failed, bold=failed)
