"""``--evals-html``: write the page of this run, after all other files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.plugin.messages import write_text
from pytest_evals.reports.escape import near
from pytest_evals.store.history import read_run

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class Html:
    """Hooks of such a session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._line = ""
        self._failed = False

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the page; an error leaves all other results intact."""
        if self._session.run.result is None:
            return
        try:
            here = self._session.config.invocation_params.dir
            self._line = f"report: {near(self._write(), here)}"
        except StoreError as error:
            self._line, self._failed = f"no report: {error}", True
            self._session.outcome.fail(session, self._line)

    def _write(self) -> Path:
        from pytest_evals.reports.html.other_runs import OtherRuns
        from pytest_evals.reports.html.write import write_html

        path, here = self._session.options.html, self._session.run.writer.path
        if here is None or self._session.run.writer.error:
            raise StoreError("the results are not on the disk")
        assert path is not None
        baseline = self._session.run.compared
        before = baseline.run if baseline is not None else None
        write_html(read_run(here), path, others=OtherRuns(before))
        return path

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Write the path of the page, or why it is missing."""
        if self._line:
            marks = {"red": self._failed, "bold": self._failed}
            write_text(terminalreporter, self._line, **marks)
