"""Gates that are judged on the controller: reports like those of an item that ran."""

from __future__ import annotations

from typing import Literal

import pytest

from pytest_evals.core.gate import Gate, Outcome
from pytest_evals.plugin.messages import gate_message, gate_properties, gate_word
from pytest_evals.plugin.session import EvalSession

__all__ = ["report_gate"]


def report_gate(session: EvalSession, nodeid: str) -> None:
    """Judge the gate of a node id, and report it in pytest's three phases."""
    gate = _gate(session, nodeid)
    verdict, result = session.judging.judge(gate)
    hook = session.config.hook
    heading = f"{gate.task}: {gate.text}"
    place = gate.source
    location = (str(place.path), place.line or None, heading)
    hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
    phases: tuple[Literal["setup", "call", "teardown"], ...]
    phases = ("setup", "call", "teardown")
    for when in phases:
        report = pytest.TestReport(
            nodeid=nodeid,
            location=location,
            keywords={gate.id: 1, "evals": 1},
            outcome="passed",
            longrepr=None,
            when=when,
            user_properties=gate_properties(verdict),
        )
        if when == "call":
            vars(report)["evals_word"] = gate_word(verdict)
            if verdict.outcome is Outcome.SKIPPED:
                report.outcome = "skipped"
                where = (str(place.path), place.line, f"Skipped: {verdict.reason}")
                report.longrepr = where
            elif verdict.is_red:
                report.outcome = "failed"
                report.longrepr = gate_message(verdict, result)
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)


def _gate(session: EvalSession, nodeid: str) -> Gate:
    """The gate that was collected under this id."""
    return next(
        gate
        for run in session.known.all()
        for gate in run.gates
        if nodeid == f"{run.nodeid}::{gate.id}"
    )
