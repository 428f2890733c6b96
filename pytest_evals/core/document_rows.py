"""Documents as rows of a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_evals.core.record import Record
from pytest_evals.core.request import Response
from pytest_evals.core.transcript import conversations


def document_row(task: str, record: Record) -> dict[str, Any]:
    """The row of a document, with a column for each score, and for each field that the
    application returned in addition to its answer."""
    talk = next(conversations(record), None)
    answers = record.own_responses
    response = Response() if not answers else answers[-1 if talk else 0]
    asked = [one.request for one in record.exchanges if one.is_tested]
    more: dict[str, Any] = {"messages": talk.messages} if talk else {}
    if talk and talk.stop_reason:
        more["metadata"] = {"stop_reason": talk.stop_reason, "turns": talk.turns}
    return {
        "task": task,
        "id": record.doc.id,
        "index": record.index,
        "status": record.status.value,
        "correct": record.correct,
        "prompt": _prompt(record, [*record.requests, *asked]),
        "target": record.doc.target_text,
        "response": response.text,
        "answer": next((one.answer for one in record.scores if one.answer), ""),
        "explanation": " ".join(one.explanation for one in record.scores).strip(),
        "row": dict(record.doc.row or {}),
        "error": record.error,
        **_returned(answers if talk else answers[:1]),
        **more,
        **{f"{one.metric},{one.filter}": one.value for one in record.scores},
    }


def _prompt(record: Record, requests: Sequence[Any]) -> Any:
    prompt = getattr(requests[0], "prompt", "") if requests else ""
    if isinstance(prompt, str):
        return prompt or record.doc.query
    return [{"role": one.role, "content": one.content} for one in prompt]


def _returned(answers: Sequence[Response]) -> dict[str, Any]:
    """What was returned with all answers: lists are joined, of others the last counts;
    with latency and cost, where known."""
    found: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.returned.items():
            is_list = isinstance(value, tuple)
            found[name] = (*found.get(name, ()), *value) if is_list else value
    latency_s = sum(one.latency_s for one in answers)
    costs = [one.cost for one in answers if one.cost is not None]
    found |= {"latency_s": latency_s} if latency_s else {}
    return found | ({"cost": sum(costs)} if costs else {})
