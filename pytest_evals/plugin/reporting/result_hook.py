"""Call ``pytest_evals_result`` after all files of the run are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_evals.reports.escape import one_line

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


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
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Report the error of the hook."""
        if self._fault:
            terminalreporter.write_line(one_line(self._fault), red=True, bold=True)
