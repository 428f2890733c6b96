"""The command that resumes a run that was cut off, and what is kept of it."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from pytest_evals.core.result import INTERRUPTED, is_cut_off
from pytest_evals.errors import plural
from pytest_evals.masking.values import masked_text
from pytest_evals.reports.escape import one_line
from pytest_evals.store.responses import stored_since

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

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
        add("not scored", [_Unscored()] * n)


class _Unscored:
    """A report without content, for pytest's counts."""

    count_towards_summary = True


def _n_scored(session: EvalSession) -> int:
    return sum(
        len(run.records) for one in session.all for run in one.suite.tasks.values()
    )
