"""A document as rows of ``samples_<task>.jsonl``: lm-eval's schema, and more.

The fields and hashes are lm-eval's (0.4.13, ``evaluator.py``), one row per filter.
Other than there, numbers stay numbers, and a document that could not be scored has its
row too. Ours are ``id``, ``status``, ``error``, ``correct``, ``finish`` and ``tokens``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Prompt, Request, Response
from pytest_evals.core.score import Score
from pytest_evals.core.task import Task
from pytest_evals.reports.strict import strict

__all__ = ["sample_lines"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_FLAT = json.JSONEncoder(ensure_ascii=False, separators=(",\n  ", ": "))
_SCALARS = {str, int, float, bool, type(None)}


def sample_lines(record: Record, task: Task) -> list[str]:
    """The rows of one document, each as a line of strict JSON, one a filter.

    Args:
        record: The document after scoring, with its requests and responses.
        task: Its task.
    """
    return [_line(row) for row in _rows(record, task)]


def _line(row: dict[str, Any]) -> str:
    """The encoder knows nearly every value; what it does not know is made strict."""
    try:
        text = _ENCODER.encode(row)
        if text.isascii() or text.encode("utf-8"):
            return text
    except (TypeError, ValueError):
        pass
    return _ENCODER.encode(strict(row))


def _rows(record: Record, task: Task) -> Iterator[dict[str, Any]]:
    facts = _facts(record)
    filters = dict.fromkeys([metric.filter for metric in task.metrics])
    filters.update(dict.fromkeys([score.filter for score in record.scores]))
    for name in filters or {"none": None}:
        scores = [score for score in record.scores if score.filter == name]
        row = {
            **facts,
            "filtered_resps": _filtered(scores, facts["resps"], record.requests),
            "filter": name,
            "metrics": [score.metric for score in scores],
        }
        for score in scores:
            # A metric that is called like a field must not hide it.
            key = score.key if score.metric in row else score.metric
            row[key] = score.value
        yield row


def _facts(record: Record) -> dict[str, Any]:
    """The fields that do not depend on a filter."""
    doc = dict(record.doc.row) or _question(record.doc)
    target = _target(record.doc)
    groups = _instances(record)
    arguments = [_arguments(group[0][0]) for group in groups]
    prompt = next((_text(args[0]) for args in arguments), "")
    unscored = next((s.unscored for s in record.scores if s.unscored), "")
    return {
        "doc_id": record.index,
        "id": record.doc.id,
        "doc": doc,
        "target": target,
        "arguments": {
            f"gen_args_{i}": {f"arg_{j}": arg for j, arg in enumerate(args)}
            for i, args in enumerate(arguments)
        },
        "resps": [[_answer(*pair) for pair in group] for group in groups],
        "doc_hash": _sha(_indented(doc)),
        "prompt_hash": _sha(prompt),
        "target_hash": _sha(target),
        "status": record.status.value,
        "error": record.error or unscored,
        "correct": record.correct,
        "finish": [response.finish for response in record.responses],
        "tokens": {
            "prompt": sum([response.n_prompt_tokens for response in record.responses]),
            "answer": sum([response.n_tokens for response in record.responses]),
            "truncated": sum([response.n_truncated for response in record.responses]),
        },
    }


def _indented(doc: dict[str, Any]) -> str:
    """``json.dumps(doc, indent=2)``, which lm-eval hashes. Python's fast encoder knows
    no indent; a row without lists and mappings needs it only between its members."""
    if doc and all(type(value) in _SCALARS for value in doc.values()):
        return "{\n  " + _FLAT.encode(doc)[1:-1] + "\n}"
    return json.dumps(doc, indent=2, default=_as_lm_eval, ensure_ascii=False)


def _question(doc: Doc) -> dict[str, Any]:
    """What there is of a document that was not made of a row."""
    return {"query": doc.query, "choices": doc.choices, "gold_index": doc.gold_index}


def _target(doc: Doc) -> str:
    if doc.target is not None or doc.row:
        return str(doc.target)
    try:
        return " | ".join(map(str, doc.get_golds()))
    except IndexError:
        return ""


def _instances(record: Record) -> list[list[tuple[Request, Response]]]:
    """Requests with their responses. Those for the same thing again, which stand side
    by side, are one instance of lm-eval with several responses."""
    pairs = list(zip(record.requests, _padded(record), strict=True))
    if len(pairs) == 1:
        return [pairs]
    return [list(group) for _, group in groupby(pairs, lambda pair: _once(pair[0]))]


def _padded(record: Record) -> Sequence[Response]:
    """One response a request, also where the document never got any."""
    lacking = len(record.requests) - len(record.responses)
    return (*record.responses, *[Response(error="not asked")] * lacking)


def _once(request: Request) -> object:
    """Equal for prompts that are sampled several times; other requests stand alone."""
    if isinstance(request, Generate):
        limits = (request.max_tokens, request.temperature, request.options)
        return (request.prompt, request.stop, *limits)
    return object()


def _arguments(request: Request) -> list[Any]:
    """The arguments of an lm-eval request."""
    if isinstance(request, Loglikelihood):
        return [_messages(request.context), request.continuation]
    if isinstance(request, Generate):
        settings = {
            "until": list(request.stop),
            "max_gen_toks": request.max_tokens,
            "temperature": request.temperature,
            "do_sample": request.temperature > 0,
        }
        return [_messages(request.prompt), {**settings, **dict(request.options)}]
    return [request.text]


def _messages(prompt: Prompt) -> str | list[dict[str, str]]:
    if isinstance(prompt, str):
        return prompt
    return [{"role": m.role, "content": m.content} for m in prompt]


def _text(prompt: str | list[dict[str, str]]) -> str:
    if isinstance(prompt, str):
        return prompt
    return json.dumps(prompt, ensure_ascii=False)


def _answer(request: Request, response: Response) -> Any:
    if response.error:
        return None
    if isinstance(request, Generate):
        return response.text
    if isinstance(request, Loglikelihood):
        return [response.logprob, response.greedy]
    return response.logprob


def _filtered(
    scores: Sequence[Score], responses: list[Any], requests: Sequence[Request]
) -> list[Any]:
    """What the filter gave; without one, the first response of each request."""
    filtered = next((score.filtered for score in scores if score.filtered), None)
    if filtered is not None:
        return list(filtered)
    if not scores or not requests:
        return []
    return [group[0] for group in responses]


def _as_lm_eval(value: Any) -> Any:
    """Values of a row that JSON does not know, as lm-eval's ``handle_non_serializable``
    turns them for hashes."""
    kind = type(value).__module__.partition(".")[0]
    if kind == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()
    return list(value) if isinstance(value, set) else str(value)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
