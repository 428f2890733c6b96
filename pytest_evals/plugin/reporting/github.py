"""Reports for GitHub: annotations at the lines of task files with problems, which
workers send to the controller; and the summary for a pull request
(``--evals-markdown``, and in GitHub Actions the job's summary), with annotations at the
lines of gates. Summaries of several models are written together, and so are those of
evals with variants, see :mod:`pytest_evals.plugin.reporting.models`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest import TerminalReporter

from pytest_evals.core.comparison import DocumentChange
from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.core.result import RunResult
from pytest_evals.errors import Place, Problem, StoreError, TaskFileError
from pytest_evals.plugin.checks.session import GATE_PROBLEMS
from pytest_evals.plugin.messages import write_text
from pytest_evals.run.model_comparison import has_variants
from pytest_evals.store.document_pairs import changed_documents
from pytest_evals.store.files import append_lines, make_folder, replace_text
from pytest_evals.store.history import read_run
from pytest_evals.store.run_settings import Side

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.reports.github.annotations import Annotation
    from pytest_evals.reports.github.pull_request import Changes

COMMENT = 65_000  # bytes of a file: GitHub takes comments of 65,536 characters
SUMMARY = 1024 * 1024
"""Maximum bytes of the summary of one step; GitHub rejects longer ones."""
LEAST = 1000  # smallest useful size of a summary


def append_summary(text: Callable[[int], str]) -> list[tuple[str, bool]]:
    """Append to the summary of the step of GitHub Actions, if there is one. ``text``:
    the Markdown, with at most so many bytes. Return the error, if it is not written,
    and that it does not fail the session."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return []
    path = Path(place)
    try:
        room = SUMMARY - (path.stat().st_size if path.exists() else 0) - 1
        if room < LEAST:
            raise StoreError(f"no space left in {str(path)!r}")
        append_lines(path, [text(room)], "GITHUB_STEP_SUMMARY")
    except (OSError, StoreError) as error:
        return [(f"the job's summary is not written: {error}", False)]
    return []


class Publishing:
    """Hooks of a session with a Markdown summary, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._on_github = os.environ.get("GITHUB_ACTIONS") == "true"
        self._lines: list[tuple[str, bool]] = []

    @property
    def is_needed(self) -> bool:
        """Whether a summary is written: in GitHub Actions, or with the option."""
        return self._on_github or self._session.options.markdown is not None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the summary; fail the session if the file of ``--evals-markdown``
        cannot be written."""
        result, path = self._session.run.result, self._session.options.markdown
        if result is None or has_variants(self._session.suite.tasks.values()):
            return  # written with the comparison
        from pytest_evals.reports.github.pull_request import run_markdown

        changes = self.changes(result)
        try:
            if path is not None:
                make_folder(path.parent, "--evals-markdown")
                text = run_markdown(result, COMMENT, changes)
                replace_text(path, text, "--evals-markdown")
        except StoreError as error:
            self._lines.append((str(error), True))
            self._session.outcome.fail(session, str(error))
        if self._on_github and not self._session.model:
            found = append_summary(lambda room: run_markdown(result, room, changes))
            self._lines += found

    def changes(self, result: RunResult) -> Changes:
        """Return the documents that got worse, for gates against a baseline."""
        open_or_red = (Outcome.FAILED, Outcome.INCONCLUSIVE)
        return {
            (one.gate.task, one.gate.id): self._worse(one)
            for one in result.verdicts
            if one.change and one.documents and one.outcome in open_or_red
        }

    def _worse(self, verdict: Verdict) -> tuple[DocumentChange, ...]:
        """Return the documents that a verdict names, in its baseline and now."""
        session, gate = self._session, verdict.gate
        path = session.run.writer.path
        baselines = session.run.baselines
        if path is None or baselines.is_replaced(gate.baseline):
            return ()
        baseline = baselines.run(gate.baseline)
        if isinstance(baseline, str):
            return ()
        try:
            sides = [
                Side(results=run.results, rows={gate.task: list(run.rows(gate.task))})
                for run in (baseline, read_run(path))
            ]
        except StoreError:
            return ()
        return changed_documents(gate.task, frozenset(verdict.documents), *sides)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Write the annotations, which GitHub reads from the log."""
        for text, is_bad in self._lines:
            write_text(terminalreporter, text, red=is_bad, yellow=not is_bad)
        if self._on_github:
            from pytest_evals.reports.github.annotations import of_verdicts

            result = self._session.run.result
            verdicts = result.verdicts if result else ()
            write_annotations(terminalreporter, [*of_verdicts(verdicts)])


FAULTS = "evals_faults"  # key of the problems that a worker sends


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
                (one.message, str(one.where.path), one.where.line, one.fix)
                for one in self._problems
            ]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Write the annotations, which GitHub reads from the log."""
        from pytest_evals.reports.github.annotations import of_problems

        gates = terminalreporter.config.stash.get(GATE_PROBLEMS, [])
        found = [*dict.fromkeys([*self._problems, *gates])]
        write_annotations(terminalreporter, [*of_problems(found)])


def write_annotations(terminal: TerminalReporter, found: Sequence[Annotation]) -> None:
    """Write annotations into the log; files are named from the repository's root."""
    from pytest_evals.reports.github.annotations import annotation_lines

    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for line in annotation_lines(found, root):
        terminal.write_line(line)
