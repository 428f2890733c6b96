"""``--evals-prefetch``: download what a suite needs from the Hub; or, with pytest's
``--collect-only``, list it.

Downloading checks the suite as ``--evals-validate`` does, which loads all datasets and
renders all prompts; then models and tokenizers are downloaded. Listing reads the task
files only, and asks the Hub for commits and sizes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.data.sources import is_of_hub
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.models.registry import parse_spec
from pytest_evals.models.repositories import (
    HubFiles,
    Repository,
    download,
    hub_files,
    model_repositories,
)
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.modes.validation import UNCHECKED, Check, TaskCheck
from pytest_evals.plugin.session import SESSION
from pytest_evals.plugin.settings.options import OPTIONS

_TASKS = 3
"""Tasks that a line lists."""


class PrefetchMode:
    """Lists or downloads repositories, as a pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._lists = bool(config.option.collectonly)
        self._lines: list[str] = []
        self._faults: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
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

    @pytest.hookimpl
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
        total = 0
        needed = self._needed()
        for repository, users in needed.items():
            try:
                files = hub_files(repository)
                if repository.kind == "model" and not self._lists:
                    download(repository, files)
            except EvalsError as error:
                self._faults.append(f"{error} (for {_listed(users)})")
                continue
            total += files.size
            self._lines.append(_line(repository, files, users))
        done = "to download" if self._lists else "in the Hub's cache"
        n = len(needed)
        self._lines.append(
            f"{n} repositor{'ies' if n != 1 else 'y'}, {_size(total)} {done}"
        )
        if self._faults:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Write the repositories, with commits and sizes."""
        terminalreporter.write_sep("=", "evals: prefetch")
        for line in self._lines:
            write_text(terminalreporter, line)
        for fault in self._faults:
            write_text(terminalreporter, f"not available: {fault}", red=True)
        if not (self._faults or self._lists):
            offline = "the suite now runs without network: HF_HUB_OFFLINE=1 pytest …"
            terminalreporter.write_line(offline)

    def _needed(self) -> dict[Repository, list[str]]:
        """Return each repository with its users."""
        found: dict[Repository, list[str]] = {}
        for repository, user in [*self._of_tasks(), *self._of_models()]:
            users = found.setdefault(repository, [])
            if user not in users:
                users.append(user)
        return found

    def _of_tasks(self) -> Iterator[tuple[Repository, str]]:
        session = self._config.stash[SESSION]
        tasks = [*session.listed, *(one.task for one in session.suite.tasks.values())]
        for task in tasks:
            path = task.config.get("dataset_path")
            if isinstance(path, str) and path and is_of_hub(path):
                arguments = task.config.get("dataset_kwargs") or {}
                revision = str(arguments.get("revision") or "")
                yield Repository("dataset", path, revision), task.name
            for source in task.models.values():
                if isinstance(source, str) and source != JUDGE:
                    yield from ((one, task.name) for one in _repositories(source))

    def _of_models(self) -> Iterator[tuple[Repository, str]]:
        options = self._config.stash[OPTIONS]
        specs = [(one.spec, "--model") for one in options.models]
        for spec, user in [*specs, (options.judge, "--evals-judge")]:
            if spec:
                yield from ((one, user) for one in _repositories(spec))


def _repositories(text: str) -> list[Repository]:
    try:
        return [*model_repositories(parse_spec(text))]
    except OptionError:  # a spec of the hook that opens models
        return []


def _line(repository: Repository, files: HubFiles, users: list[str]) -> str:
    kind, name, revision = repository
    pinned = f" at {revision}" if revision else ""
    n = len(files.names)
    return (
        f"{kind} {name}{pinned}: commit {files.commit[:12]}, {n} file{'s' * (n != 1)}, "
        f"{_size(files.size)} (for {_listed(users)})"
    )


def _listed(users: list[str]) -> str:
    more = len(users) - _TASKS
    return ", ".join(users[:_TASKS]) + (f" and {more} more" if more > 0 else "")


def _size(n: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
