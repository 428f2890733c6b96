"""Gates that were collected and not judged, and metrics that could not be computed: a
session with either must not look like one whose gates passed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest

from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.core.result import RunResult, broken_metrics
from pytest_evals.plugin.session import EvalSession
from pytest_evals.run.profile import RELEASE


class GateCoverage:
    """Counts the gates of a session."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._excused: set[str] = set()
        """Node ids of gates that a mark or the user's setup skips, with a reason."""
        self._marks: dict[str, Literal["xfail", "xpass"]] = {}
        """Node id → ``xfail`` or ``xpass``."""

    def add(self, report: pytest.TestReport) -> None:
        """Remember marks of a gate."""
        if hasattr(report, "wasxfail"):
            self._excused.add(report.nodeid)
            self._marks[report.nodeid] = "xpass" if report.passed else "xfail"
        elif report.skipped and report.when == "setup":
            self._excused.add(report.nodeid)

    def mark_verdicts(self) -> None:
        """Add ``xfail`` to verdicts, for the table and for baselines."""
        reported = self._session.run.gate_judge.reported
        for nodeid, gate in self._gates():
            key = gate.task, gate.id
            if nodeid in self._marks and key in reported:
                reported[key] = replace(reported[key], mark=self._marks[nodeid])

    def check(self, session: pytest.Session, result: RunResult) -> None:
        """Fail the session if its gates say less than its exit code. Those of a part of
        a run are judged later."""
        if self._session.options.shard:
            return
        gates = [*self._gates()]
        collected = self._session.shared.collected_gates
        if collected:
            gates = [(nodeid, gate) for nodeid, gate in gates if nodeid in collected]
        left = [gate for nodeid, gate in gates if not self._is_judged(nodeid, gate)]
        is_release = self._session.options.profile == RELEASE
        outcome = self._session.outcome
        if left:
            n, n_all = len(left), len(gates)
            are = "gate was" if n == n_all == 1 else "gates were"
            outcome.line = f"{n} of {n_all} {are} not judged"
            is_empty = n == n_all and not self._is_selected()
            if is_empty:
                outcome.line = f"no gate was judged, of {n}"
            elif is_release:
                outcome.line += f"; --evals-profile={RELEASE} needs all of them"
            if is_empty or is_release:
                outcome.fail(session, outcome.line)
        for metric in broken_metrics(result.tasks):
            outcome.fail(session, metric)

    def _gates(self) -> Iterator[tuple[str, Gate]]:
        for run in self._session.suite.all():
            for gate in run.gates:
                yield run.gate_id(gate), gate

    def _is_judged(self, nodeid: str, gate: Gate) -> bool:
        """Whether a gate has a verdict, or a reason not to have one."""
        judge = self._session.run.gate_judge
        verdict = judge.reported.get((gate.task, gate.id))
        if nodeid in self._excused:
            return True
        if verdict is None:
            return False
        # A gate on a baseline that this run becomes is skipped, with all documents.
        is_complete = not judge.result_of(gate).n_missing
        return verdict.outcome is not Outcome.SKIPPED or verdict.left_out or is_complete

    def _is_selected(self) -> bool:
        """Whether the user has selected documents or gates."""
        config, options = self._session.config, self._session.options
        names = ("keyword", "markexpr", "deselect", "lf", "stepwise", "splits")
        return bool(
            any(config.getoption(name, None) for name in names)
            or any("::" in str(arg) for arg in config.args)
            or options.only
            or options.limit
            or options.sample
        )
