"""Letters of gates in pytest's progress: on the line of their file, or none."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_evals.plugin.documents import Status

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class GateLetters:
    """Prints a file once, as a pytest plugin: gates run after the documents of all
    files, so a file has a second line only if one of its gates failed."""

    def __init__(self, session: EvalSession, terminal: pytest.TerminalReporter) -> None:
        self._shared = session.shared
        self._terminal = terminal
        self._file = ""
        self._seen: set[tuple[str, str | None]] = set()
        """Reports whose letters were decided: the short summary needs them again."""
        self._held: list[tuple[str, dict[str, bool]]] = []
        """Letters of the file's gates that were not printed."""

    @staticmethod
    def is_needed(terminal: pytest.TerminalReporter | None) -> bool:
        """Whether letters are printed after the names of files."""
        if terminal is None or terminal.config.get_verbosity() != 0:
            return False
        return bool(terminal.showfspath)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Let pytest begin a line for the file of any test but a gate."""
        self._terminal.showfspath = not self._is_gate(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> Generator[None, Status, Status]:
        """Keep the letter of a gate until one of its file's gates fails."""
        category, letter, word = yield
        seen = report.nodeid, report.when
        if not letter or not self._is_gate(report.nodeid) or seen in self._seen:
            return category, letter, word
        self._seen.add(seen)
        file = report.nodeid.partition("::")[0]
        if file != self._file:
            self._file = file
            self._held.clear()
        terminal = self._terminal
        if terminal.currentfspath == terminal.config.rootpath / file:
            return category, letter, word
        if not report.failed:
            self._held.append((letter, _markup(word, report)))
            return category, "", word
        terminal.write_fspath_result(report.nodeid, "")
        for held, markup in self._held:
            terminal._tw.write(held, **markup)
        return category, letter, word

    def _is_gate(self, nodeid: str) -> bool:
        return nodeid in self._shared.collected_gates


def _markup(word: str | tuple[str, dict[str, bool]], report: object) -> dict[str, bool]:
    if isinstance(word, tuple):
        return word[1]
    return {"green" if getattr(report, "passed", False) else "yellow": True}
