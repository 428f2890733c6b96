"""Gates on documents: those of ``must_pass``, or all; ``every`` counts answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.record import Record, Score, Status
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import plural, unknown_name

_SHOWN = 5  # number of documents listed in a reason


class _State(NamedTuple):
    name: str
    kind: Literal["correct", "wrong", "unknown", "invalid", "not run"]
    why: str = ""
    n_correct: str = ""
    is_once: bool = False
    """Whether its answers are one, because the model is deterministic."""


def judge_documents(gate: Gate, result: TaskResult) -> Verdict:
    """The verdict of a gate on documents.

    Failed if a document is wrong. Else invalid if an id is unknown or a document has no
    score; else skipped if a document was not run.
    """
    index = dict(zip(result.task.rows.ids(), result.task.rows.indices(), strict=True))
    records = {record.index: record for record in result.records}
    names = gate.must_pass or [*index]
    states = [*_states(gate, names, index, records, result)]
    by_kind: dict[str, list[_State]] = {}
    for state in states:
        by_kind.setdefault(state.kind, []).append(state)
    if wrong := by_kind.get("wrong"):
        others = len(states) - len(wrong) - len(by_kind.get("correct", ()))
        return _failed(gate, wrong, len(states), others)
    invalid = [*by_kind.get("unknown", ()), *by_kind.get("invalid", ())]
    if invalid:
        reason = _listed([state.why for state in invalid], "; ")
        return _verdict(gate, Outcome.INVALID, reason, invalid)
    of_all = plural(len(states), "document")
    if not_run := by_kind.get("not run"):
        listed = _listed([state.name for state in not_run])
        reason = f"{len(not_run)} of {of_all} not run: {listed}"
        return _verdict(gate, Outcome.SKIPPED, reason, not_run)
    reason = f"{of_all} correct{_rule(gate)}{_once(states)}"
    return Verdict(gate=gate, outcome=Outcome.PASSED, reason=reason)


def _states(
    gate: Gate,
    names: Sequence[str],
    index: Mapping[str, int],
    records: Mapping[int, Record],
    result: TaskResult,
) -> Iterator[_State]:
    limited = result.n_selected < result.n_total
    for name in names:
        record = records.get(index[name]) if name in index else None
        if name not in index and not limited:
            yield _State(name, "unknown", unknown_name("document", name, index))
        elif record is None:  # it may be outside of a limit or sample
            yield _State(name, "not run")
        else:
            yield _of_record(gate, name, record)


def _of_record(gate: Gate, name: str, record: Record) -> _State:
    why = ""
    if record.error:
        why = f"errored: {record.error}"
    elif record.status is not Status.SCORED:
        unscored = next((one.unscored for one in record.scores if one.unscored), "")
        why = f"is unscored: {unscored}"
    elif record.correct is None:
        why = "is neither correct nor wrong: no metric of the task decides that"
    if why:
        return _State(name, "invalid", f"{name} {why}")
    if gate.every is None:
        return _State(name, "correct" if record.correct else "wrong")
    return _of_answers(gate, name, record)


def _of_answers(gate: Gate, name: str, record: Record) -> _State:
    assert gate.every is not None
    score = next(score for score in record.scores if score.correct is not None)
    n = gate.every.n
    if len(score.repeats) < n:
        why = f"the gate needs {n} answers to each document, and {name} has "
        why += f"{len(score.repeats) or 1}: set repeats: {n} in the task"
        return _State(name, "invalid", why)
    n_correct = sum(_is_correct(score, value) for value in score.repeats[:n])
    state = _State(name, "correct" if n_correct >= gate.every.least else "wrong")
    if score.is_deterministic:
        return state._replace(is_once=True)
    return state._replace(n_correct=f" ({n_correct} of {n})")


def _is_correct(score: Score, value: object) -> bool:
    """Whether an answer has the value of a correct one."""
    correct = 1
    if score.value in (0, 1):
        correct = score.value if score.correct else 1 - score.value
    return value == correct


def _failed(gate: Gate, wrong: Sequence[_State], n: int, others: int) -> Verdict:
    rule = _rule(gate)
    message = f"not correct{rule}" if rule else "wrong"
    reason = f"{len(wrong)} of {plural(n, 'document')} {message}: "
    reason += _listed([state.name + state.n_correct for state in wrong])
    reason += _once(wrong)
    if others:
        reason += f"; {others} more without a score"
    verdict = _verdict(gate, Outcome.FAILED, reason, wrong)
    return verdict if others or rule else replace(verdict, n_short=len(wrong))


def _once(states: Sequence[_State]) -> str:
    if not any(state.is_once for state in states):
        return ""
    return " (one answer each: the model is deterministic)"


def _verdict(
    gate: Gate, outcome: Outcome, reason: str, states: Sequence[_State]
) -> Verdict:
    ids = tuple(state.name for state in states)
    return Verdict(gate=gate, outcome=outcome, reason=reason, documents=ids)


def _rule(gate: Gate) -> str:
    return "" if gate.every is None else f" in at least {gate.every} answers"


def _listed(parts: Sequence[str], separator: str = ", ") -> str:
    shown = separator.join(parts[:_SHOWN])
    left = len(parts) - _SHOWN
    return f"{shown}{separator}and {left} more" if left > 0 else shown
