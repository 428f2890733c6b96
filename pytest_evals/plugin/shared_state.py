"""The state that all models of a pytest session share, and its outcome: why it fails
although its tests passed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from pytest_evals.core.task import Group, Task
from pytest_evals.models.http.spend_ledger import LEDGER, Ledger, RunCaps
from pytest_evals.plugin.rerun_scores import RerunScores
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.settings.process import assignment_of, is_distributed
from pytest_evals.plugin.suite.task_index import task_index_of
from pytest_evals.run.selection import Selection
from pytest_evals.run.shared_prompts import PromptCache
from pytest_evals.sandbox.session import end_sandbox, set_sandbox


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


OfModel = TypeVar("OfModel")
"""The state of one model, :class:`~pytest_evals.plugin.session.EvalSession`."""


class SharedState(Generic[OfModel]):
    """The state of a session that is the same for all of its models."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options, and begin to count for spend caps."""
        self.config = config
        self.options = config.stash[OPTIONS]
        self.sessions: list[OfModel] = []
        """The states of all models, in their order."""
        self.assignment = assignment_of(config)
        self.selection = Selection(self.options.tasks, chosen=is_distributed(config))
        self.task_index = task_index_of(config)
        self.loading: OfModel | None = None
        """The state whose tasks were read last."""
        self.tasks: dict[Path, Sequence[Task | Group]] = {}
        """The tasks of files that several models share."""
        self.prompts = PromptCache()
        """The documents that several models get."""
        self.failed_files: set[Path] = set()
        """Files that cannot be read: the first model reports them."""
        self.folders: dict[Path, pytest.Directory] = {}
        """Folders of files that were reached through groups, if pytest has not
        collected them itself."""
        self.collected_gates: frozenset[str] = frozenset()
        """Node ids of gates, before any deselection; empty if unknown."""
        self.has_result_tests = False
        """Whether tests that use the results are selected; known after collection."""
        self.locked: set[str] = set()
        """Tasks that were compared with ``evals.lock``."""
        self.outcome = SessionOutcome()
        self.repeats = RerunScores()
        self._begin_ledger()
        set_sandbox(self.options.sandbox, consents=self.options.allow_unsafe_code)
        config.add_cleanup(end_sandbox)

    def _begin_ledger(self) -> None:
        """Count for spend caps from 0; workers share a file with their controller,
        which has begun it."""
        caps = RunCaps(self.options.max_requests, self.options.max_cost)
        if self.assignment is not None:
            Ledger.begin_run(str(Path(self.assignment.stop).with_name(LEDGER)), caps)
        elif not is_distributed(self.config):
            Ledger.begin_run(caps=caps)
            self.config.add_cleanup(Ledger.begin_run)
