"""A document as an example: the end of its prompt, its answer, its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Rolling
from pytest_evals.core.result import TaskResult
from pytest_evals.core.returned import returned_text, transcript_text
from pytest_evals.core.transcript import conversations
from pytest_evals.errors import plural
from pytest_evals.reports.escape import cut, one_line, safe_lines, tail
from pytest_evals.scorers.near_misses import type_fault

_SHOWN = ("steps", "calls", "contexts", "messages", "data")
_PROMPT, _ANSWER = 200, 160
"""Maximum characters shown of a prompt, and of an answer or a target."""


def ids_by_index(result: TaskResult) -> Mapping[int, str]:
    """Return the id of each document of a task by its position in the dataset."""
    rows = result.task.rows
    return dict(zip(rows.indices(), rows.ids(), strict=True))


def example_lines(
    record: Record, indent: str, key: str = "", was: str = ""
) -> list[str]:
    """Return prompt, what the application returned, answer, target and the judge's
    reason, if available; each on one line.

    Args:
        indent: Start of each line.
        key: Metric whose answer and reason are shown, instead of the first ones.
        was: The answer in the baseline; empty if it is unknown.
    """
    scores = [score for score in record.scores if score.key == key]
    if scores:
        record = replace(record, scores=tuple(scores))
    answer = cut(_answer(record), _ANSWER)
    turns, stopped = _turns(record, is_whole=not answer)
    was = cut(was, _ANSWER) if answer else ""
    facts = {
        "prompt": "" if turns else tail(prompt_of(record), _PROMPT),
        "turns": tail(turns, 3 * _PROMPT),
        "stopped": stopped,
        **{name: cut(text, _ANSWER) for name, text in _returned(record).items()},
        "was": was,
        "now" if was else "answer": answer,
        "target": cut(record.doc.target_text, _ANSWER),
        "reason": cut(
            next((s.explanation for s in record.scores if s.explanation), ""), _PROMPT
        ),
    }
    return [f"{indent}{name:7} {text}" for name, text in facts.items() if text]


def error_of(record: Record) -> str:
    """Return why the document has no score, on one line; empty if it has one."""
    return one_line(record.fault)


def prompt_of(record: Record) -> str:
    """Return the first prompt of a document; its query, if the prompt was not kept."""
    asked_later = (one.request for one in record.exchanges if one.is_tested)
    request = next(iter(record.requests), None) or next(asked_later, None)
    if request is None:
        return record.doc.query
    if isinstance(request, Rolling):
        return request.text
    asked = request.context if isinstance(request, Loglikelihood) else request.prompt
    if isinstance(asked, str):
        return asked
    return "\n".join(f"{message.role}: {message.content}" for message in asked)


def _answer(record: Record) -> str:
    """Return the extracted answer, or the end of the generation without one."""
    for score in record.scores:
        if score.answer:
            has_space = score.answer != score.answer.strip()
            return repr(score.answer) if has_space else score.answer
    for request, response in zip(record.requests, record.responses, strict=False):
        if isinstance(request, Generate) and not response.error:
            cause = " (stopped at the limit of tokens)"
            return f"{response.text!r}{cause * (response.finish == 'length')}"
    return ""


def _returned(record: Record) -> dict[str, str]:
    """Return what the application returned in addition to its answers, by name."""
    found = dict[str, Any]()
    for response in record.own_responses:
        for name, value in response.returned.items():
            if isinstance(value, tuple):
                found[name] = (*found.get(name, ()), *value)
            else:
                found.setdefault(name, value)
    return {name: returned_text(name, found[name]) for name in _SHOWN if name in found}


def _turns(record: Record, *, is_whole: bool) -> tuple[str, str]:
    """Return the transcript of a conversation, without the last answer unless it
    ``is_whole``, and why a simulated user stopped."""
    for one in conversations(record):
        shown = one.messages
        if shown[-1]["role"] == "assistant" and not is_whole:
            shown = shown[:-1]
        times = f"after {plural(one.turns, 'turn')}"
        return transcript_text(shown), one.stop_reason and f"{one.stop_reason} {times}"
    return "", ""


def document_lines(record: Record) -> list[str]:
    """Yield the error or that the answer is wrong, then prompt, answer and target.

    Summaries show only the first line. An error may have several lines; each is
    escaped.
    """
    lines = safe_lines(record.fault) or ["the answer is wrong"]
    lines += example_lines(record, "  ")
    scores = () if record.error else record.scores[:1]
    for score in scores:
        if score.correct is False and isinstance(score.answer, str):
            fault = type_fault(score.answer, record.doc.target)
            lines += [f"  hint    {fault}"] if fault else []
    return lines
