"""``--evals-prefetch``: download what a suite needs from the Hub; or, with pytest's
``--collect-only``, list it. Downloading also writes ``evals.lock``.

Downloading checks the suite as ``--evals-validate`` does, which loads all datasets and
renders all prompts; then models and tokenizers are downloaded. Listing reads the task
files only, and asks the Hub for commits and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, StoreError, plural
from pytest_evals.models.checkpoint import HubFiles, Repository, download, hub_files
from pytest_evals.plugin.checks import lock
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.modes.validation import UNCHECKED, Check, TaskCheck
from pytest_evals.plugin.session import SESSION
from pytest_evals.store.files import shown_size


class PrefetchMode:
    """Lists or downloads repositories, as a pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._lists = bool(config.option.collectonly)
        self._lines: list[str] = []
        self._faults: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """A list needs files that can be read, and nothing else."""
        yield
        if self._lists:
            items[:] = [
                one
                for one in items
                if isinstance(one, Check)
                and not isinstance(one, TaskCheck)
                and not isinstance(one.parent, pytest.Session)
            ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A dataset that could not be loaded is a fault here."""
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if report.when == "call" and UNCHECKED in reason:
            self._faults.append(reason.removeprefix("Skipped: "))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Ask the Hub, and download."""
        if SESSION not in self._config.stash:
            return
        total, commits = 0, dict[str, str]()
        evals = self._config.stash[SESSION]
        tasks = [*evals.listed, *(one.task for one in evals.suite.tasks.values())]
        needed = lock.needed_repositories(evals.options, tasks)
        for repository, users in needed.items():
            try:
                files = hub_files(repository)
                if repository.kind == "model" and not self._lists:
                    download(repository, files)
            except EvalsError as error:
                self._faults.append(f"{error} (for {lock.listed(users)})")
                continue
            total += files.size
            commits[lock.repository_name(repository)] = files.commit
            self._lines.append(_line(repository, files, users))
        done = "to download" if self._lists else "in the Hub's cache"
        counted = f"{len(needed)} repositor{'ies' if len(needed) != 1 else 'y'}"
        self._lines.append(f"{counted}, {shown_size(total)} {done}")
        if self._faults:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        if not self._lists:
            self._write_lock(session, tasks, commits)

    def _write_lock(
        self, session: pytest.Session, tasks: list[Task], commits: dict[str, str]
    ) -> None:
        line = f"{lock.LOCK} is not written"
        if session.exitstatus == pytest.ExitCode.OK:
            try:
                lock.write_lock(self._config.stash[SESSION], tasks, commits)
                line = f"{lock.LOCK} is written; --evals-locked compares runs with it"
            except StoreError as error:
                line += f": {error}"
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._lines.append(line)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int
    ) -> None:
        """Write the repositories, with commits and sizes."""
        terminalreporter.write_sep("=", "evals: prefetch")
        for line in self._lines:
            write_text(terminalreporter, line)
        for fault in self._faults:
            write_text(terminalreporter, f"not available: {fault}", red=True)
        if exitstatus == pytest.ExitCode.OK and not self._lists:
            offline = "the suite now runs without network: HF_HUB_OFFLINE=1 pytest …"
            terminalreporter.write_line(offline)


def _line(repository: Repository, files: HubFiles, users: list[str]) -> str:
    n = len(files.names)
    return (
        f"{lock.repository_name(repository)}: commit {files.commit[:12]}, "
        f"{plural(n, 'file')}, {shown_size(files.size)} (for {lock.listed(users)})"
    )
