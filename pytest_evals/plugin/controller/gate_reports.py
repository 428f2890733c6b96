"""Test reports of gates, which are judged on the controller of pytest-xdist."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.plugin.gates import gate_properties, gate_word
from pytest_evals.plugin.messages import gate_message, heading_of
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.workers.serialization import GateMark

_Phase = Literal["setup", "call", "teardown"]


def report_gate(session: EvalSession, nodeid: str) -> None:
    """Judge the gate of a node id, and report it in pytest's three phases."""
    session, gate = next(
        (one, gate)
        for one in session.all
        for run in one.suite.all()
        for gate in run.gates
        if nodeid == run.gate_id(gate)
    )
    mark = (
        GateMark(*session.gate_marks[nodeid]) if nodeid in session.gate_marks else None
    )
    hook, place = session.config.hook, gate.source
    line = place.line - 1 if place.line else None
    location = (str(place.path), line, heading_of(gate))
    properties: list[tuple[str, Any]] = []
    if mark is not None and not mark.runs:
        phases: dict[_Phase, dict[str, Any]]
        phases = {"setup": _not_judged(gate, mark), "teardown": {}}
    else:
        verdict, result = session.run.gate_judge.judge(gate)
        properties = gate_properties(verdict)
        fields = _with_mark(_judged(session, verdict, result), mark)
        phases = {"setup": {}, "call": fields, "teardown": {}}
    hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
    for when, more in phases.items():
        report = pytest.TestReport(
            nodeid=nodeid,
            location=location,
            keywords=_keywords(gate),
            outcome="passed",
            longrepr=None,
            when=when,
            user_properties=properties,
        )
        vars(report).update(more)
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)


def _judged(
    session: EvalSession, verdict: Verdict, result: TaskResult | GroupResult
) -> dict[str, Any]:
    """Return the fields of the call report for a verdict."""
    fields: dict[str, Any] = {"evals_word": gate_word(verdict)}
    if verdict.outcome in (Outcome.SKIPPED, Outcome.PENDING):
        longrepr = _skipped(verdict.gate, verdict.reason)
        fields |= {"outcome": "skipped", "longrepr": longrepr}
    elif verdict.is_red:
        message = gate_message(verdict, result, session.config, session.model)
        fields |= {"outcome": "failed", "longrepr": message}
    return fields


def _with_mark(fields: dict[str, Any], mark: GateMark | None) -> dict[str, Any]:
    """Return the fields for a gate with an ``xfail`` mark, as ``_pytest.skipping``
    does."""
    outcome = fields.get("outcome", "passed")
    if mark is None or outcome == "skipped":
        return fields
    if outcome == "failed":
        as_expected = {"outcome": "skipped", "wasxfail": mark.reason}
        return fields | as_expected if mark.covers else fields
    if mark.strict:
        why = f"[XPASS(strict)] {mark.reason}"
        return fields | {"outcome": "failed", "longrepr": why}
    return fields | {"wasxfail": mark.reason}


def _not_judged(gate: Gate, mark: GateMark) -> dict[str, Any]:
    """Return the fields of the setup report for a gate that is not judged."""
    if mark.fails:
        return {"outcome": "failed", "longrepr": mark.reason}
    if mark.skips:
        longrepr, keywords = _skipped(gate, mark.reason), {**_keywords(gate), "skip": 1}
        return {"outcome": "skipped", "longrepr": longrepr, "keywords": keywords}
    return {"outcome": "skipped", "wasxfail": f"[NOTRUN] {mark.reason}"}


def _keywords(gate: Gate) -> dict[str, Literal[1]]:
    return {gate.id: 1, "evals": 1}


def _skipped(gate: Gate, reason: str) -> tuple[str, int, str]:
    return str(gate.source.path), gate.source.line, f"Skipped: {reason}"
