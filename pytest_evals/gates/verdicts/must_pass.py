"""Documents that must be answered right, whatever the metrics say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.record import Record
from pytest_evals.core.result import TaskResult
from pytest_evals.core.score import Status
from pytest_evals.errors import did_you_mean

__all__ = ["judge_documents"]

_SHOWN = 5
"""Ids that a reason lists before it counts the others."""


def judge_documents(gate: Gate, result: TaskResult) -> Verdict:
    """What becomes of a ``must_pass`` gate.

    One wrong answer fails it. Else an unknown id, or a document that has no score,
    makes it invalid; else a document that was not run, skipped.
    """
    index = dict(zip(result.task.rows.ids(), result.task.rows.indices(), strict=True))
    records = {record.index: record for record in result.records}
    limited = result.n_selected < result.n_total
    groups: dict[str, list[str]] = {
        "wrong": [],
        "unknown": [],
        "odd": [],
        "not run": [],
    }
    for name in gate.must_pass:
        state = _state(name, index, records, limited)
        if state:
            groups[state].append(name)
    if groups["wrong"]:
        return _failed(gate, groups)
    remarks = [_unknown(name, list(index)) for name in groups["unknown"]]
    remarks += [f"{name} {_why(records[index[name]])}" for name in groups["odd"]]
    if remarks:
        decided = tuple(groups["unknown"] + groups["odd"])
        return Verdict(
            gate=gate,
            outcome=Outcome.INVALID,
            reason=_listed(remarks, "; "),
            documents=decided,
        )
    if groups["not run"]:
        absent = groups["not run"]
        reason = f"{len(absent)} of {_count(gate.must_pass)} not run: {_listed(absent)}"
        return Verdict(
            gate=gate, outcome=Outcome.SKIPPED, reason=reason, documents=tuple(absent)
        )
    reason = f"{_count(gate.must_pass)} right"
    return Verdict(gate=gate, outcome=Outcome.PASSED, reason=reason)


def _state(
    name: str, index: Mapping[str, int], records: Mapping[int, Record], limited: bool
) -> str:
    """Which group a document belongs to; empty if it is right."""
    if name not in index:
        # A limit or a sample may have left the document out: it is known, then, to
        # nobody here.
        return "not run" if limited else "unknown"
    record = records.get(index[name])
    if record is None:
        return "not run"
    if record.status is not Status.SCORED or record.correct is None:
        return "odd"
    return "" if record.correct else "wrong"


def _failed(gate: Gate, groups: Mapping[str, Sequence[str]]) -> Verdict:
    wrong = groups["wrong"]
    others = sum(map(len, groups.values())) - len(wrong)
    reason = f"{len(wrong)} of {_count(gate.must_pass)} wrong: {_listed(wrong)}"
    if others:
        reason += f"; {others} more without an answer that counts"
    return Verdict(
        gate=gate,
        outcome=Outcome.FAILED,
        n_short=None if others else len(wrong),
        reason=reason,
        documents=tuple(wrong),
    )


def _why(record: Record) -> str:
    if record.error:
        return f"errored: {record.error}"
    unscored = next((score.unscored for score in record.scores if score.unscored), "")
    if unscored:
        return f"is unscored: {unscored}"
    return "is neither right nor wrong: no metric of the task can say so"


def _unknown(name: str, known: Sequence[str]) -> str:
    return f"no document called {name!r}{did_you_mean(name, known)}"


def _count(ids: Sequence[str]) -> str:
    return f"{len(ids)} document{'s' * (len(ids) > 1)}"


def _listed(parts: Sequence[str], separator: str = ", ") -> str:
    shown = separator.join(parts[:_SHOWN])
    left = len(parts) - _SHOWN
    return f"{shown}{separator}and {left} more" if left > 0 else shown
