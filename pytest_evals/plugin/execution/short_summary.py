"""pytest's short summary (``-r``) with our own categories of documents and gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.plugin.documents import status_of
from pytest_evals.plugin.reporting.resume_hint import count_unscored
from pytest_evals.reports.escape import near, one_line

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

_OWN = {
    "x": "xfailed",
    "X": "xpassed",
    "f": "failed",
    "s": "skipped",
    "p": "passed",
    "E": "error",
}
"""Letter of ``-r`` → pytest's category."""
_PASSED = ("wrong", "regressed", "inconclusive")
"""Categories of documents and gates that passed."""
_SKIPPED = "stopped"


class ShortSummary:
    """Adds lines to the short summary, as a pytest plugin; not for workers."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Add to pytest's lines, which are the last of its summary."""
        yield
        count_unscored(self._session, terminalreporter)
        if terminalreporter.no_summary:
            return
        lines = [*_lines(terminalreporter)]
        listed = (_OWN[one] for one in terminalreporter.reportchars if one in _OWN)
        if lines and not any(map(terminalreporter.stats.get, listed)):
            title = "short test summary info"
            terminalreporter.write_sep("=", title, cyan=True, bold=True)
        for line in lines:
            terminalreporter.write_line(line)
        self._session.outcome.write(terminalreporter)


def _lines(terminal: pytest.TerminalReporter) -> Iterator[str]:
    if "p" in terminal.reportchars:
        for category in _PASSED:
            for report in terminal.stats.get(category, ()):
                yield f"{_word(terminal, report)} {_place(terminal, report)}"
    if "s" in terminal.reportchars:
        stopped = terminal.stats.get(_SKIPPED, [])
        for (path, line, why), n in Counter(r.longrepr for r in stopped).items():
            place = near(Path(path), terminal.config.invocation_params.dir)
            reason = one_line(why.removeprefix("Skipped: "))
            yield f"{_word(terminal, stopped[0])} [{n}] {place}:{line}: {reason}"


def _word(terminal: pytest.TerminalReporter, report: pytest.TestReport) -> str:
    status = status_of(report)
    assert status is not None
    word = status[2]
    text, markup = word if isinstance(word, tuple) else (word, {})
    return terminal._tw.markup(text, **markup)


def _place(terminal: pytest.TerminalReporter, report: pytest.TestReport) -> str:
    nodeid: Any = getattr(report, "id", None) or report.nodeid  # 9.2 has it parsed
    return one_line(terminal.config.cwd_relative_nodeid(nodeid))
