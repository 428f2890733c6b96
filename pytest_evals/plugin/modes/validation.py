"""``--evals-validate``: check files, tasks and gates without a model.

Files are collected as for a run. Then one item a task takes the place of its documents
and gates, and one item the place of each file that could not be collected; so one
session reports the problems of all files. All other tests are deselected.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest
from _pytest._code.code import ExceptionInfo, TerminalRepr
from pytest import TerminalReporter

from pytest_evals.core.dialogue import Ask
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Request, Response
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError, plural
from pytest_evals.plugin.checks.session import check_session
from pytest_evals.plugin.collected_items import documents_of_named_gates
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.messages import ShortMessage, write_text
from pytest_evals.plugin.models.progress import HEARTBEAT_S
from pytest_evals.plugin.reporting.prompts import write_out_lines
from pytest_evals.plugin.session import SESSION, EvalSession
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.suite.lookalike_files import unused_gates_files
from pytest_evals.run.batches import ask
from pytest_evals.run.diagnosis import earlier_near_misses
from pytest_evals.run.flow import score
from pytest_evals.run.rounds import continued

FIRST = 5  # documents of a task that are always scored
MOST_SCORED_S = 2.0
"""Seconds of a task's scoring after which no further documents are scored."""
MOST_ROUNDS = 20  # rounds of a dialogue
MOST_UNCHECKED = 20  # unreachable tasks that the summary lists
UNCHECKED = "not checked: "
_UNASKED = "cannot be prompted"
_UNSCORED = "cannot be scored, though answered with its target"
_NOT_SENT = "not sent: no model is used here"
_NO_FAULTS = (_NOT_SENT, "no terminate_if was met")
"""Parts of errors that are due to the missing models."""
_EXCEPTION = re.compile(r"\w(?:Error|Exception)\b")


class Check(pytest.Item):
    """A problem that was found at collection, or a file that could not be checked."""

    in_package = False

    def __init__(self, *, error: Exception, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error
        self.notes: tuple[str, ...] = ()  # warnings for the summary

    def runtest(self) -> None:
        """Raise the problem, or skip."""
        error = self.error
        if isinstance(error, TaskFileError) and error.is_unreachable:
            pytest.skip(f"{UNCHECKED}{self.name}: {error.problems[0]}")
        raise error

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Heading of a failure."""
        return self.path, None, self.name

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Return the problems, one a line, without traceback."""
        error = excinfo.value
        if not isinstance(error, EvalsError | pytest.UsageError):
            if isinstance(self.parent, pytest.Module):  # it cannot be imported
                return self.parent.repr_failure(excinfo)
            return super().repr_failure(excinfo, style)
        place = Place(self.path)
        if isinstance(error, TaskFileError) and error.problems:
            place = error.problems[0].where
        return ShortMessage(str(error).splitlines(), str(place.path), place.line)


class TaskCheck(Check):
    """A collected task: renders its documents and scores the first ones."""

    def __init__(
        self, *, task: Task, documents: Mapping[int, str], scores: bool, **kwargs: Any
    ) -> None:
        """``documents`` maps positions to ids."""
        super().__init__(error=TaskFileError([]), **kwargs)
        self.task, self.documents, self.scores = task, documents, scores

    def runtest(self) -> None:
        """Render, score and collect warnings."""
        problems = problems_of(self.task, self.documents, scores=self.scores)
        base = self.config.stash[OPTIONS].dir
        earlier = (f"last run: {one}" for one in earlier_near_misses(base, self.task))
        notes = (*self.task.warnings(), *earlier)
        self.notes = tuple(f"{self.task.name}: {note}" for note in notes)
        if problems:
            raise TaskFileError(problems)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Heading of a failure."""
        return self.path, self.task.source.line or None, self.name


def _with_place(error: EvalsError, path: Path) -> EvalsError:
    """The error of a module with the last line of the module that was executed."""
    if isinstance(error, TaskFileError):
        return error
    frames = walk_tb(error.__traceback__)
    lines = [n for frame, n in frames if frame.f_code.co_filename == str(path)]
    message, _, fix = str(error).partition("\n  fix: ")
    return TaskFileError(
        [Problem(message, Place(path, lines[-1] if lines else 0), fix)]
    )


class ValidationMode:
    """Replaces documents by checks, as a pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._notes: dict[str, None] = {}
        self._reported: set[str] = set()
        self._n_files, self._shown = 0, time.monotonic()
        self._counts = {"passed": 0, "failed": 0, "skipped": 0}

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Collect a file with problems as an item."""
        report = yield
        self._show_progress(collector)
        call = getattr(report, "call", None)
        error = call.excinfo.value if call and call.excinfo else None
        is_module = isinstance(collector, pytest.Module)
        if not isinstance(error, Exception if is_module else EvalsError):
            return report
        name = getattr(collector, "path", Path(collector.name)).stem
        if is_module and isinstance(error, EvalsError):
            error = _with_place(error, collector.path)
        if isinstance(error, TaskFileError) and not error.is_unreachable:
            error = self._not_told_yet(error)
        if isinstance(error, EvalsError):
            # Its frames would keep the contents of every file that was read.
            error.__traceback__ = error.__cause__ = error.__context__ = None
        check = Check.from_parent(collector, name=name, error=error)
        check.add_marker("evals")
        return pytest.CollectReport(collector.nodeid, "passed", None, [check])

    def _show_progress(self, collector: pytest.Collector) -> None:
        """Write the number of files twice a minute, unless a terminal shows pytest's
        own progress of the collection."""
        self._n_files += isinstance(collector, pytest.File)
        now = time.monotonic()
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is None or terminal.isatty or now < self._shown + HEARTBEAT_S:
            return
        self._shown = now
        terminal.write_line(f"evals: {plural(self._n_files, 'file')} read", flush=True)

    def _not_told_yet(self, error: TaskFileError) -> TaskFileError:
        """Return the problems that were not reported before: all tasks of a folder
        share one ``gates.yaml``."""
        fresh = [p for p in error.problems if str(p) not in self._reported]
        if not fresh and error.problems:
            where = error.problems[0].where
            fresh = [Problem("the problem that was reported above", where)]
        self._reported.update(map(str, error.problems))
        return TaskFileError(fresh)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Replace the documents of each task by one check, after ``-k``, ``-m`` and
        other selections."""
        if SESSION in self._config.stash:
            items[:0] = documents_of_named_gates(self._config, items)
        yield
        others = [i for i in items if not isinstance(i, Check | DocItem | GateItem)]
        broken = any(isinstance(item, Check) for item in items)
        items[:] = _checks(items)
        if not broken and SESSION in self._config.stash:
            evals = self._config.stash[SESSION]
            items += self._whole(session, evals)
            lost = unused_gates_files(self._config, evals.gates)
            self._notes |= dict.fromkeys([*map(str, lost), *evals.suite.warnings()])
        if others:
            self._config.hook.pytest_deselected(items=others)

    def _whole(self, session: pytest.Session, evals: EvalSession) -> Iterator[Check]:
        """Check gates and ``--evals-tasks`` on all tasks if all files were readable."""
        try:
            check_session(evals)
        except pytest.UsageError as error:
            name = "options-and-gates"
            yield Check.from_parent(session, name=name, nodeid=name, error=error)

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """Return the prompts, with ``--evals-write-out``."""
        checks = (item for item in items if isinstance(item, TaskCheck))
        selected = ((check.task, check.documents) for check in checks)
        return write_out_lines(self._config, selected)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add warnings to the report; a skip points at the task file."""
        report = yield
        if isinstance(item, Check) and report.when == "call":
            vars(report)["evals_notes"] = list(item.notes)
            if isinstance(report.longrepr, tuple):
                path, line, _ = item.reportinfo()
                report.longrepr = (str(path), line or 0, report.longrepr[2])
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count results and keep warnings."""
        if report.when == "call":
            self._counts[report.outcome] += 1
            self._notes.update(dict.fromkeys(getattr(report, "evals_notes", ())))
            if report.skipped and isinstance(report.longrepr, tuple):
                self._notes[report.longrepr[2].removeprefix("Skipped: ")] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, str] | None:
        """Return the words of ``-v``."""
        if report.when != "call":
            return None
        return {
            "passed": ("passed", ".", "OK"),
            "failed": ("failed", "F", "PROBLEMS"),
            "skipped": ("skipped", "s", "NOT CHECKED"),
        }[report.outcome]

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Write warnings, unchecked tasks and counts."""
        n_all = sum(self._counts.values())
        if terminalreporter.no_summary or not n_all:
            return
        terminalreporter.write_sep("=", "evals")
        unchecked = [one for one in self._notes if one.startswith(UNCHECKED)]
        notes = [f"warning: {one}" for one in self._notes if one not in unchecked]
        if n_more := len(unchecked[MOST_UNCHECKED:]):
            more = f"{UNCHECKED}{plural(n_more, 'more task')}; -rs lists them"
            unchecked[MOST_UNCHECKED:] = [more]
        for text in [*notes, *unchecked]:
            write_text(terminalreporter, text, yellow=True)
        counts = self._counts
        terminalreporter.write_line(
            f"{n_all} checked: {counts['passed']} ok, {counts['failed']} with problems"
            f", {counts['skipped']} out of reach; no model was used"
        )


def _checks(items: Sequence[pytest.Item]) -> list[Check]:
    """Return one check for each task with a selected document, and the collected
    checks, in the order of the items."""
    first: dict[str, DocItem | Check] = {}
    documents: dict[str, dict[int, str]] = {}
    for item in items:
        if isinstance(item, Check):
            first[item.nodeid] = item
        elif isinstance(item, DocItem):
            name = item.job.task.name
            first.setdefault(f"[{name}]", item)
            id_ = item.name.partition("[")[2][:-1]
            documents.setdefault(name, {})[item.job.index] = id_
    checks: list[Check] = []
    for item in first.values():
        if isinstance(item, Check):
            checks.append(item)
        else:
            check = TaskCheck.from_parent(
                item.parent,
                name=item.name.partition("[")[0],
                task=item.job.task,
                documents=documents[item.job.task.name],
                scores=item.parent.score_hook is None,
            )
            check.own_markers.extend(item.own_markers)
            checks.append(check)
    return checks


# Its file has been read and its rows were looked at before; here all its documents are
# rendered, and the first of them answered with their targets and scored.
def problems_of(
    task: Task, documents: Mapping[int, str], *, scores: bool
) -> list[Problem]:
    """Return the problems of a task's documents; equal ones are merged. ``scores``:
    whether its own scoring is used, and is to be tried."""
    found: dict[tuple[str, str], list[str]] = {}
    scored_s = 0.0
    for n, (index, id_) in enumerate(documents.items()):
        record = ask(task, index)
        faults = [(_UNASKED, record.error)] if record.error else []
        if scores and not faults and (n < FIRST or scored_s < MOST_SCORED_S):
            start = time.perf_counter()
            faults = [(_UNSCORED, one) for one in _scoring_faults(record, task)]
            scored_s += time.perf_counter() - start
        for fault in faults:
            found.setdefault(fault, []).append(id_)
    return [
        Problem(f"document {ids[0]} {text}{_counted(text, ids)}: {why}", task.source)
        for (text, why), ids in found.items()
    ]


def _counted(kind: str, ids: Sequence[str]) -> str:
    """Return the number of documents; not all of them are scored."""
    several = kind == _UNASKED and len(ids) > 1
    return f" ({len(ids):,} documents in all)" if several else ""


def _scoring_faults(record: Record, task: Task) -> Iterator[str]:
    """Yield why a document cannot be scored after its target as answer. Auxiliary
    models have no answer, so exclusion rules, which may use their scores, are not
    tried if there are any."""
    target = _target(record)
    answers = (_answer(target, q, i) for i, q in enumerate(record.requests))
    asked = replace(record, responses=tuple(answers))
    answered = continued(asked, task, partial(_reply, target), MOST_ROUNDS)
    if answered is None:
        return
    result = score(answered, replace(task, exclude=None) if task.models else task)
    for fault in dict.fromkeys([result.error, *(s.unscored for s in result.scores)]):
        of_code = not target and _EXCEPTION.search(fault)  # which may need an answer
        if fault and not of_code and not any(one in fault for one in _NO_FAULTS):
            yield fault


def _reply(target: str, ask: Ask) -> Response:
    if ask.model:
        return Response(error=_NOT_SENT)
    return _answer(target, ask.request, 0)


def _target(record: Record) -> str:
    """Return the first reference answer, or an empty text."""
    try:
        golds = record.doc.get_golds()
    except IndexError:
        golds = []
    target = record.doc.target
    return str(golds[0]) if golds else target if isinstance(target, str) else ""


def _answer(target: str, request: Request, position: int) -> Response:
    if isinstance(request, Generate):
        return Response(text=target, finish="stop", n_prompt_tokens=1, n_tokens=1)
    greedy = position == 0 if isinstance(request, Loglikelihood) else None
    logprob = -1.0 - position
    return Response(logprob=logprob, greedy=greedy, n_prompt_tokens=1, n_tokens=1)
