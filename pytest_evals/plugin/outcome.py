"""Why a session fails although its tests passed: one list, from which the exit code and
the last line follow."""

from __future__ import annotations

import pytest


class SessionOutcome:
    """The reasons for which a session fails, and its last line."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.line = ""
        """Gates that were not judged, for the last line; empty if all were."""

    def fail(
        self, session: pytest.Session, reason: str, *, overrides: bool = False
    ) -> None:
        """Let the session fail. ``overrides``: even if it ends with another error."""
        self.reasons.append(reason)
        if overrides or session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def write(self, terminal: pytest.TerminalReporter) -> None:
        """Write the last line."""
        if self.line:
            fails = any(reason == self.line for reason in self.reasons)
            colours = {"red" if fails else "yellow": True, "bold": True}
            terminal.write_line(f"evals: {self.line}", **colours)
