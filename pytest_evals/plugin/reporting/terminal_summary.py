"""The terminal's lines before and after the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.core.gate import Verdict
from pytest_evals.dialects.task_index.packages import label_of
from pytest_evals.errors import plural
from pytest_evals.models.registry import with_address
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.messages import fitted, write_text
from pytest_evals.plugin.reporting.resume_hint import write_going_on
from pytest_evals.reports.escape import near, safe_lines
from pytest_evals.reports.overview.remarks import grouped
from pytest_evals.reports.terminal.summary import summary_lines
from pytest_evals.sandbox.session import sandbox_line

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
    own = not any(run.task.asks_model for run in session.suite.tasks.values())
    tested = "models of the evals" if own else "model of the fixture eval_model"
    tested = f"model {with_address(model)}" if model else tested
    if session.model:
        tested = f"models {', '.join(one.model for one in session.all)}"
    if judge and any(
        JUDGE in run.task.models.values() for run in session.suite.tasks.values()
    ):
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
