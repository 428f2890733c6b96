"""GitHub annotations at the lines of task files with problems.

With pytest-xdist, workers send the problems and the controller reports them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.plugin.checks.session import GATE_PROBLEMS

if TYPE_CHECKING:
    from pytest_evals.reports.github.annotations import Annotation

FAULTS = "evals_faults"
"""Key of the problems that a worker sends."""


class Faults:
    """Hooks of such a session, as a pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._sent: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._problems: dict[Problem, None] = {}

    @staticmethod
    def begin(config: pytest.Config, sent: Iterable[Sequence[Any]] = ()) -> None:
        """Register one in GitHub Actions; ``sent`` are the problems of a worker."""
        if os.environ.get("GITHUB_ACTIONS") != "true":
            return
        name, manager = "evals-faults", config.pluginmanager
        if not manager.has_plugin(name):
            manager.register(Faults(config), name)
        faults = manager.getplugin(name)
        assert isinstance(faults, Faults)
        for text, path, line, fix in sent:
            faults._problems[Problem(text, Place(Path(path), line), fix)] = None

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        """Keep the problems of task files."""
        error = call.excinfo.value if call.excinfo else None
        if not isinstance(error, TaskFileError):
            return
        self._problems |= dict.fromkeys(error.problems)
        if self._sent is not None:
            self._sent[FAULTS] = [
                (one.what, str(one.where.path), one.where.line, one.fix)
                for one in self._problems
            ]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Write the annotations, which GitHub reads from the log."""
        from pytest_evals.reports.github.annotations import of_problems

        gates = terminalreporter.config.stash.get(GATE_PROBLEMS, [])
        found = [*dict.fromkeys([*self._problems, *gates])]
        write_annotations(terminalreporter, [*of_problems(found)])


def write_annotations(
    terminal: pytest.TerminalReporter, found: Sequence[Annotation]
) -> None:
    """Write annotations into the log; files are named from the repository's root."""
    from pytest_evals.reports.github.annotations import annotation_lines

    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for line in annotation_lines(found, root):
        terminal.write_line(line)
