"""The terminal's lines before and after the run, and those in pytest's short summary:
the command that resumes a run, and our own categories of documents and gates."""

from __future__ import annotations

import os
import shlex
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.core.gate import Verdict
from pytest_evals.core.result import INTERRUPTED, is_cut_off
from pytest_evals.dialects.task_index.packages import label_of
from pytest_evals.errors import plural
from pytest_evals.masking.values import masked_text
from pytest_evals.models.registry import with_address
from pytest_evals.plugin.documents import status_of
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.messages import fitted, write_text
from pytest_evals.reports.escape import near, one_line, safe_lines
from pytest_evals.reports.overview.remarks import grouped
from pytest_evals.reports.terminal.summary import summary_lines
from pytest_evals.sandbox.session import sandbox_line
from pytest_evals.store.responses import stored_since

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


def collected_lines(session: EvalSession, items: Sequence[pytest.Item]) -> list[str]:
    """Return the numbers of tasks, documents and gates after collection, and the model;
    nothing if no documents or gates are selected."""
    n_gates = sum(isinstance(item, GateItem) for item in items)
    n_documents = sum(one.run.inference.n_documents for one in session.all)
    if session.config.get_verbosity() < 0 or not (n_gates or n_documents):
        return []
    groups = len(session.suite.groups)
    counts = {"group": groups} if groups else {}
    counts["task"] = len(session.suite.tasks)
    counts["document"] = n_documents
    counts["gate"] = n_gates
    counted = ", ".join(plural(n, noun) for noun, n in counts.items())
    model, judge = session.options.model, session.options.judge
    tasks = [run.task for run in session.suite.tasks.values()]
    are_local = not any(task.asks_model for task in tasks)
    tested = "models of the evals" if are_local else "model of the fixture eval_model"
    tested = f"model {with_address(model)}" if model else tested
    if session.model:
        tested = f"models {', '.join(one.model for one in session.all)}"
    if judge and any(JUDGE in task.models.values() for task in tasks):
        tested += f" · judge {with_address(judge)}"
    sources = [label_of(one) for one in session.options.include_path]
    tested += "".join(f" · tasks of {one}" for one in sources if one)
    return safe_lines(f"evals: {counted} · {tested}")


def warning_lines(session: EvalSession) -> list[str]:
    """Return the warnings that were not reported yet, grouped by cause; with ``-q``
    they are reported at the end."""
    if session.config.get_verbosity() < 0:
        return []
    new = dict.fromkeys(text for one in session.all for text in one.warnings.new())
    found = (f"evals: warning: {text}" for text in grouped([*new]))
    writer = session.config.get_terminal_writer()
    lines = (line for text in found for line in safe_lines(text))
    return [part for line in lines for part in fitted(line, writer)]


def write_summary(session: EvalSession, terminal: pytest.TerminalReporter) -> None:
    """Write the table of tasks and gates, notes, counts, times and the folder of the
    results; with ``-q`` without counts and times."""
    result = session.run.result
    if result is None:
        return
    terminal.write_sep("=", f"evals: {session.model}" if session.model else "evals")
    path, here = session.run.writer.path, session.config.invocation_params.dir
    lines = summary_lines(
        result,
        terminal._tw.fullwidth,
        near(path, here) if path else "",
        reported=_reported(terminal, result.verdicts),
        verbosity=session.config.get_verbosity(),
    )
    for line in lines:
        terminal.write_line(line.text, **line.markup)
    for name, n in session.run.filled.items():
        left_out = plural(n, "document")
        terminal.write_line(f"{name}: {left_out} out of the store, not run again")
    for text in grouped(session.warnings.new()):
        write_text(terminal, f"warning: {text}", yellow=True)
    if text := sandbox_line():
        write_text(terminal, text)
    write_going_on(session, terminal)
    if session.run.writer.error:
        write_text(terminal, session.run.writer.error, red=True, bold=True)


def _reported(
    terminal: pytest.TerminalReporter, verdicts: Iterable[Verdict]
) -> set[tuple[str, str]]:
    if terminal.config.getoption("tbstyle", "auto") == "no":
        return set()
    failed = {report.nodeid for report in terminal.stats.get("failed", ())}
    gates = ((one.gate.task, one.gate.id) for one in verdicts if one.is_red)
    ends = {f"::{task}::{id_}": (task, id_) for task, id_ in gates}
    return {
        gate
        for end, gate in ends.items()
        if any(nodeid.endswith(end) for nodeid in failed)
    }


_REFRESH = "--evals-cache=refresh"


def write_going_on(session: EvalSession, terminal: pytest.TerminalReporter) -> None:
    """Write how much was scored, how much is stored, and the command; nothing if the
    run was neither interrupted nor stopped by a spend cap. Workers have ended by now,
    and stored what they had."""
    if session is not session.all[-1]:  # one command resumes all models
        return
    partial = session.run.partial
    if not is_cut_off(partial):
        return
    is_capped = partial != INTERRUPTED
    n_scored = _n_scored(session)
    n_planned = sum(one.run.inference.n_documents for one in session.all)
    n_answered = sum(one.run.inference.n_answered for one in session.all)
    n_more = 0 if is_capped else n_answered - n_scored
    answered = f", {n_more:,} more answered" if n_more > 0 else ""
    is_kept = session.options.cache != "off"
    started = session.run.config.started.date
    n_stored = stored_since(session.options.dir, started) if is_kept else 0
    responses = f"{plural(n_stored, 'response')} stored"
    cause = "spend cap" if is_capped else partial
    terminal.write_line(
        f"{cause}: {n_scored:,} of {plural(n_planned, 'document')} scored{answered}; "
        f"{responses}",
        yellow=True,
    )
    way = "to continue (stored responses are reused)"
    if not n_stored:
        way = "to run again (no responses are stored)"
        if is_capped and is_kept:
            way = "to continue, raise the cap (no responses are stored)"
    terminal.write_line(f"{way}: {_command(session)}")


def _command(session: EvalSession) -> str:
    """The command line, without secrets, that uses the stored responses."""
    given = map(os.fspath, session.config.invocation_params.args)
    kept = [masked_text(argument) for argument in given if argument != _REFRESH]
    if session.options.cache == "refresh":
        kept.append("--evals-cache=use")  # the ini file may set refresh, too
    return one_line(shlex.join(["pytest", *kept]))


def count_unscored(session: EvalSession, terminal: pytest.TerminalReporter) -> None:
    """Let pytest's last line count the documents that an interrupted run has not
    scored: if it has scored none, the line would be that no tests ran. It comes after
    all other summaries, since plugins expect reports in these lists."""
    add = getattr(terminal, "_add_stats", None)
    n = sum(one.run.inference.n_documents for one in session.all) - _n_scored(session)
    is_interrupted = session.run.partial == INTERRUPTED and not session.models.refused
    if is_interrupted and add is not None and n > 0:
        add("not scored", [object()] * n)  # instead of reports


def _n_scored(session: EvalSession) -> int:
    runs = (run for one in session.all for run in one.suite.tasks.values())
    return sum(len(run.records) for run in runs)


_OWN = {
    "x": "xfailed",
    "X": "xpassed",
    "f": "failed",
    "s": "skipped",
    "p": "passed",
    "E": "error",
}
"""Letter of ``-r`` → pytest's category."""
_PASSED = ("wrong", "regressed", "inconclusive")
"""Categories of documents and gates that passed."""
_SKIPPED = "stopped"


class ShortSummary:
    """Adds lines to the short summary, as a pytest plugin; not for workers."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Add to pytest's lines, which are the last of its summary."""
        yield
        count_unscored(self._session, terminalreporter)
        if terminalreporter.no_summary:
            return
        lines = [*_lines(terminalreporter)]
        listed = (_OWN[one] for one in terminalreporter.reportchars if one in _OWN)
        if lines and not any(map(terminalreporter.stats.get, listed)):
            title = "short test summary info"
            terminalreporter.write_sep("=", title, cyan=True, bold=True)
        for line in lines:
            terminalreporter.write_line(line)
        self._session.outcome.write(terminalreporter)


def _lines(terminal: pytest.TerminalReporter) -> Iterator[str]:
    if "p" in terminal.reportchars:
        for category in _PASSED:
            for report in terminal.stats.get(category, ()):
                yield f"{_word(terminal, report)} {_place(terminal, report)}"
    if "s" in terminal.reportchars:
        stopped = terminal.stats.get(_SKIPPED, [])
        for (path, line, why), n in Counter(r.longrepr for r in stopped).items():
            place = near(Path(path), terminal.config.invocation_params.dir)
            reason = one_line(why.removeprefix("Skipped: "))
            yield f"{_word(terminal, stopped[0])} [{n}] {place}:{line}: {reason}"


def _word(terminal: pytest.TerminalReporter, report: pytest.TestReport) -> str:
    status = status_of(report)
    assert status is not None
    word = status[2]
    text, markup = word if isinstance(word, tuple) else (word, {})
    return terminal._tw.markup(text, **markup)


def _place(terminal: pytest.TerminalReporter, report: pytest.TestReport) -> str:
    nodeid: Any = getattr(report, "id", None) or report.nodeid  # 9.2 has it parsed
    return one_line(terminal.config.cwd_relative_nodeid(nodeid))


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
        parts = (facts[name] for name in ("conclusion", "reason") if name in facts)
        why = ": ".join(map(str, parts))
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
