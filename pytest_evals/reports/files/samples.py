"""A document as rows of ``samples_<task>.jsonl``: lm-eval's schema, and more.

The fields and hashes are lm-eval's (0.4.13, ``evaluator.py``), one row per filter.
Other than there, numbers stay numbers, and a document that could not be scored has its
row too. Ours are ``id``, ``status``, ``error``, ``correct``, ``answer``, ``finish`` and
``tokens``; ``choices_hash``; ``reads``, the fields of the row that scoring reads;
``exchanges``, where there were follow-up requests; ``top_logprobs`` of the first
answer's tokens, for a gate on ``kl``; ``steps``, if a model returns some; and
``explanations``, where a metric gives some.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from pytest_evals.core.dialogue import Exchange
from pytest_evals.core.doc import Doc, as_list, unwatched
from pytest_evals.core.key import public_options
from pytest_evals.core.record import Record, Score, Status
from pytest_evals.core.request import (
    IMAGE_OPTIONS,
    PLACED_IMAGES,
    Generate,
    Loglikelihood,
    Prompt,
    Render,
    Request,
    Response,
    images_of,
    is_embedding,
    with_tools,
)
from pytest_evals.core.returned import RETURNED
from pytest_evals.core.task import Task
from pytest_evals.core.top_logprobs import shown_top_logprobs
from pytest_evals.core.transcript import conversations
from pytest_evals.errors import DocumentError
from pytest_evals.masking.values import masked
from pytest_evals.reports.strict import strict, strict_line

HASHES = ("doc_hash", "prompt_hash", "target_hash", "choices_hash")
"""The hashes of a document in the order of :class:`Sample`; the first three are
lm-eval's."""
SHORT = 16
"""Digits of the last one."""

_ALIKE = frozenset({str, int, bool, type(None)})
"""Types that orjson and Python's encoder write alike; floats they do not."""
_TEXT = frozenset({str})


class Sample(NamedTuple):
    """Rows of one document in results files."""

    lines: list[str]  # its rows, each as a line of strict JSON, one a filter
    hashes: str
    """SHA-256 of its row, its prompt and its target, and the first :data:`SHORT` digits
    of that of its choices, one after the other in hexadecimal."""
    reads: tuple[str, ...] | None = None
    """Fields of its row that scoring has read; ``None`` if it got no row."""


def sample_of(
    record: Record, task: Task, thumbnails: Mapping[str, str] | None = None
) -> Sample:
    """Return the rows of a document in results files.

    Args:
        record: The document after scoring, with its requests and responses.
        thumbnails: Small images for the HTML page, by the digests of its images.
    """
    facts = _facts(record)
    if thumbnails:
        facts["thumbnails"] = dict(thumbnails)
    hashes = "".join([facts[name] for name in HASHES])
    lines = [strict_line(row) for row in _rows(facts, record, task)]
    return Sample(lines, hashes, getattr(record.doc.row, "scored", None))


def _rows(facts: dict[str, Any], record: Record, task: Task) -> list[dict[str, Any]]:
    filters: dict[str, None] = {}
    for metric in task.metrics:
        filters[metric.filter] = None
    for score in record.scores:
        filters[score.filter] = None
    if len(filters) < 2:
        name = next(iter(filters), "none")
        return [_row(facts, name, record.scores, record.requests)]
    rows = [
        _row(
            facts.copy(),
            name,
            [score for score in record.scores if score.filter == name],
            record.requests,
        )
        for name in filters
    ]
    for row in rows[1:]:  # they do not depend on the filter and are long
        for name in ("top_logprobs", "thumbnails", *RETURNED):
            row.pop(name, None)
    return rows


def _row(
    row: dict[str, Any], name: str, scores: Sequence[Score], requests: Sequence[Request]
) -> dict[str, Any]:
    """Return the fields of a document with those of one filter."""
    row["filtered_resps"] = _filtered(scores, row["resps"], requests)
    row["filter"] = name
    row["metrics"] = [score.metric for score in scores]
    row["answer"] = scores[0].answer if scores else ""
    explanations, repeats = {}, {}
    for score in scores:
        if score.explanation:
            explanations[score.metric] = score.explanation
        # Copies of one answer do not count as repeats.
        if score.repeats and not (score.is_copied or score.unscored):
            answers = [*score.repeat_answers]
            repeats[score.metric] = {"values": [*score.repeats], "answers": answers}
    if explanations:
        row["explanations"] = explanations
    if repeats:
        row["repeats"] = repeats
    for score in scores:
        # A metric that is called like a field must not hide it.
        row[score.key if score.metric in row else score.metric] = score.value
    return row


def _facts(record: Record) -> dict[str, Any]:
    """The fields that do not depend on a filter."""
    doc, counts = record.doc, record.counts()
    row = unwatched(doc.row) or {
        "query": doc.query,
        "choices": doc.choices,
        "gold_index": doc.gold_index,
    }
    target = _target(doc)
    arguments, answers = _asked(record)
    prompt = _prompt(arguments["gen_args_0"]) if arguments else b""
    facts: dict[str, Any] = {
        "doc_id": record.index,
        "id": doc.id,
        "doc": row,
        "target": "" if target == str(None) and doc.target is None else target,
        "arguments": arguments,
        "resps": answers,
        "doc_hash": _sha(_indented(row)),
        "prompt_hash": _sha(prompt),
        "target_hash": _sha(_bytes(target)),
        "choices_hash": _sha(_indented(_choices(doc)))[:SHORT],
        "status": counts.status.value,
        "error": "" if counts.status is Status.SCORED else record.fault,
        "correct": counts.correct,
        "finish": [response.finish for response in record.responses],
        "tokens": {
            "prompt": counts.n_prompt_tokens,
            "answer": counts.n_tokens,
            "truncated": counts.n_truncated,
        },
        **_times(record.own_responses),
    }
    if record.requests and isinstance(record.requests[0], Loglikelihood):
        facts["gold"] = as_list(doc.gold_index)
    reads = getattr(doc.row, "scored", None)
    if reads is not None:
        facts["reads"] = reads
    if record.excluded:
        facts["excluded"] = record.excluded
    if record.responses and (tops := record.responses[0].top_logprobs):
        facts["top_logprobs"] = shown_top_logprobs(tops)
    more = [one.returned for one in record.responses]
    for name in dict.fromkeys(key for one in more for key in one):
        facts[name] = masked([getattr(one, name) for one in record.responses])
    if record.exchanges and (talks := [*conversations(record)]):
        facts["messages"] = masked([[*one.messages] for one in talks])
        if any(one.stop_reason for one in talks):
            facts["metadata"] = [
                {"stop_reason": one.stop_reason, "turns": one.turns} for one in talks
            ]
    if record.exchanges:
        facts["exchanges"] = [*map(_exchange, record.exchanges)]
    return facts


def _exchange(exchange: Exchange) -> dict[str, Any]:
    """A follow-up request, its model and its response."""
    model, request, response = exchange
    if is_embedding(request) and isinstance(response.data, list):
        text = f"embedding of {len(response.data)} numbers"
        response = replace(response, data=None, text=text)
    return masked(response.returned) | {
        "model": model,
        "arguments": _arguments(request),
        "resp": _answer(request, response),
        "error": response.error,
        "finish": response.finish,
    }


def _times(responses: Sequence[Response]) -> dict[str, float]:
    """Return the latency of the slowest response and the cost of all, where known."""
    latency = max([one.latency_s for one in responses], default=0.0)
    costs = [one.cost for one in responses if one.cost is not None]
    known = {"latency_s": latency} if latency else {}
    is_known = costs and len(costs) == len(responses)
    return known | ({"cost": math.fsum(costs)} if is_known else {})


def _indented(row: Mapping[str, Any]) -> bytes:
    """``json.dumps(row, indent=2, ensure_ascii=False)``, which lm-eval hashes; by the
    fast encoder where both give the same bytes."""
    try:
        if _alike(row):
            return orjson.dumps(row, option=orjson.OPT_INDENT_2)
    except (orjson.JSONEncodeError, RecursionError):
        pass  # an integer beyond 64 bits, a lone surrogate, values nested deeply
    try:
        text = json.dumps(row, indent=2, default=_as_lm_eval, ensure_ascii=False)
    except (ValueError, RecursionError):  # lm-eval ends here
        text = json.dumps(strict(row), indent=2, ensure_ascii=False)
    return _bytes(text)


def _alike(value: Any) -> bool:
    """Whether both encoders write the value alike."""
    kind = type(value)
    if kind in _ALIKE:
        return True
    if kind is dict and _TEXT.issuperset(map(type, value)):
        value = value.values()
    elif kind is not list:
        return False
    return _ALIKE.issuperset(map(type, value)) or all(map(_alike, value))


def _choices(doc: Doc) -> dict[str, Any]:
    """Return the fields for scoring other than row, prompt and target."""
    found: dict[str, Any] = {"choices": doc.choices, "gold": doc.gold_index}
    if doc.specific is not None:
        found["specific"] = doc.specific
    if doc.unconditioned_query is not None:
        found["unconditioned"] = doc.unconditioned_query
    return found


def _target(doc: Doc) -> str:
    if doc.target is not None or doc.row:
        return str(doc.target)
    try:
        return " | ".join(map(str, doc.get_golds()))
    except IndexError:
        return ""


def _asked(record: Record) -> tuple[dict[str, dict[str, Any]], list[list[Any]]]:
    """Arguments and responses of the document's instances."""
    if len(record.requests) == 1 == len(record.responses):
        request, response = record.requests[0], record.responses[0]
        return {"gen_args_0": _arguments(request)}, [[_answer(request, response)]]
    arguments: dict[str, dict[str, Any]] = {}
    answers: list[list[Any]] = []
    for i, group in enumerate(_instances(record)):
        arguments[f"gen_args_{i}"] = _arguments(group[0][0])
        answers.append([_answer(*pair) for pair in group])
    return arguments, answers


def _instances(record: Record) -> list[list[tuple[Request, Response]]]:
    """Return requests with their responses. Adjacent requests that repeat a prompt are
    one instance of lm-eval with several responses."""
    requests = record.requests
    pairs = list(zip(requests, _padded(record), strict=True))
    return [list(group) for _, group in groupby(pairs, lambda pair: _once(pair[0]))]


def _padded(record: Record) -> Sequence[Response]:
    """Return one response for each request, with an error for missing ones."""
    lacking = len(record.requests) - len(record.responses)
    if not lacking:
        return record.responses
    return (*record.responses, *[Response(error="not sent")] * lacking)


def _once(request: Request) -> object:
    """Return a key that is equal for repeats of a prompt, and different otherwise."""
    if isinstance(request, Generate):
        limits = (request.max_tokens, request.temperature, request.options)
        return (request.prompt, request.stop, *limits)
    return object()


def _arguments(request: Request) -> dict[str, Any]:
    """The arguments of an lm-eval request."""
    if isinstance(request, Loglikelihood):
        pair = {"arg_0": _messages(request.context), "arg_1": request.continuation}
        images = _images(request)
        return {**pair, "arg_2": images} if images else pair
    if isinstance(request, Generate):
        settings = {
            "until": request.stop,
            "max_gen_toks": request.max_tokens,
            "temperature": request.temperature,
            "do_sample": request.temperature > 0,
            **{
                name: value
                for name, value in public_options(request.options)
                if name not in IMAGE_OPTIONS
            },
            **_images(request),
        }
        return {"arg_0": _messages(request.prompt), "arg_1": settings}
    return {"arg_0": request.text}


def _images(request: Request) -> dict[str, Any]:
    """The images of a request: hashes, and of those in messages also places and
    paths."""
    given = images_of(request)
    if not given:
        return {}
    found: dict[str, Any] = {name: [*value] for name, value in public_options(given)}
    if PLACED_IMAGES in found:
        keys = ("message", "at", "sha256", "detail", "path")
        placed = dict(given)[PLACED_IMAGES]
        found[PLACED_IMAGES] = [dict(zip(keys, one, strict=False)) for one in placed]
    return found


def _prompt(arguments: Mapping[str, Any]) -> bytes:
    """A prompt as bytes for its hash, with its images."""
    settings = arguments.get("arg_2", arguments.get("arg_1"))
    images = settings.get(PLACED_IMAGES, ()) if isinstance(settings, dict) else ()
    return _text(arguments["arg_0"]) + _bytes("".join(one["sha256"] for one in images))


def _messages(prompt: Prompt) -> str | list[dict[str, str]]:
    if isinstance(prompt, str):
        return prompt
    return [{"role": m.role, "content": m.content} for m in prompt]


def _text(prompt: str | list[dict[str, str]]) -> bytes:
    if isinstance(prompt, str):
        return _bytes(prompt)
    return _bytes(json.dumps(prompt, ensure_ascii=False))


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
    """Return the filtered responses; without a filter the first of each request."""
    for score in scores:
        if score.filtered:
            return list(score.filtered)
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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def rendered(record: Record, render: Render) -> Record:
    """The record with chats rendered to text, as in lm-eval's samples; a chat that its
    template refuses stays a chat."""
    return replace(
        record, requests=tuple(_rendered(q, render) for q in record.requests)
    )


def _rendered(request: Request, render: Render) -> Request:
    try:
        if isinstance(request, Loglikelihood):
            return replace(request, context=render(request.context))
        if isinstance(request, Generate):
            prompt = render(with_tools(request))
            is_chat = not isinstance(prompt, str)
            return request if is_chat else replace(request, prompt=prompt)
    except DocumentError:
        pass
    return request
