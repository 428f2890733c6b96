"""Count documents of which pytest's terminal prints nothing.

To ask who knows of statuses, and then to print and flush nothing, takes as long as to
score the document. The terminal keeps its counts; only the way to them is shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_evals.plugin.execution.document_reports import status_of


def count_of(config: pytest.Config, terminal: Any) -> Callable[..., None] | None:
    """What does as ``terminal.pytest_runtest_logreport`` does; ``None`` where only the
    terminal can tell: it prints a line a test, it is not pytest's, or somebody else
    has statuses of his own."""
    if type(terminal) is not pytest.TerminalReporter or terminal.showlongtestinfo:
        return None
    impls = config.hook.pytest_report_teststatus.get_hookimpls()
    if any(home_of(impl.plugin) not in ("_pytest", "pytest_evals") for impl in impls):
        return None
    shown = getattr(terminal, "_progress_nodeids_reported", None)
    add = getattr(terminal, "_add_stats", None)
    if not isinstance(shown, set) or add is None:
        return None
    ask = terminal.pytest_runtest_logreport

    def count(report: pytest.TestReport) -> None:
        status = status_of(report)
        if status is None or status[1]:
            ask(report)
            return
        add(status[0], (report,))
        shown.add(getattr(report, "id", None) or report.nodeid)

    return count


def home_of(plugin: Any) -> str:
    """The package of a plugin, which is a module or an object."""
    name: str = getattr(plugin, "__name__", type(plugin).__module__)
    return name.partition(".")[0]
