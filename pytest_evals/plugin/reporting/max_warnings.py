"""Count inconclusive gates that only warn for ``--max-warnings`` (pytest 9.1)."""

from __future__ import annotations

import warnings

import pytest

from pytest_evals.reports.escape import one_line


class OpenGates:
    """The hook of a session whose warnings are counted, as a pytest plugin. Elsewhere
    the table shows the gate, and a second mention would be noise."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a warning; no filter of Python's makes an error of it."""
        if getattr(report, "evals_word", "") != "inconclusive" or not report.passed:
            return
        path, line, heading = report.location
        line = 0 if line is None else line + 1
        facts = dict(report.user_properties)
        why = ": ".join(
            str(facts[name]) for name in ("conclusion", "reason") if name in facts
        )
        text = one_line(f"{heading}: inconclusive: {why}")
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": warnings.WarningMessage(
                    pytest.PytestWarning(text), pytest.PytestWarning, path, line
                ),
                "when": "runtest",
                "nodeid": report.nodeid,
                "location": None,
            }
        )


def are_counted(config: pytest.Config) -> bool:
    """Whether ``max_warnings`` is set, so that warnings are counted."""
    try:
        of_file = config.getini("max_warnings")
    except ValueError:  # before pytest 9.1
        return False
    return config.getoption("max_warnings") is not None or of_file is not None
