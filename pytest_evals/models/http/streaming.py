"""Streamed completions: one reply from many events, and its first token's time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.models.http.errors import BROKEN_OFF, RequestFailedError, shortened

ARRIVALS = "evals_arrivals"  # Extension of a response: the arrivals of its parts
FIRST_TOKEN_S = "evals_first_token_s"
"""Key of a streamed reply: seconds until its first token, 0 if it has no text."""
_LONGEST = 1e7
_FIELD = re.compile(r"\s*(data|event|id|retry)?:")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")
_LISTS = ("content", "tokens", "token_logprobs", "top_logprobs", "text_offset")


class Arrival(NamedTuple):
    """A part of a reply."""

    end: int  # Length of the reply so far, in bytes
    after_s: float  # Seconds since the request was sent


def is_stream(text: str) -> bool:
    """Whether a reply is a stream; servers without streaming send JSON."""
    return _FIELD.match(text) is not None


def merged(text: str, arrivals: Sequence[Arrival]) -> dict[str, Any]:
    """The reply that the server would have sent without streaming;
    ``RequestFailedError`` if it ended before the completion, or is not a valid
    stream."""
    reply: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    is_complete = False
    for end, event in _events(text):
        if event is None:
            is_complete = True
            break
        if event.get("error"):
            return event
        reply |= {k: v for k, v in event.items() if k != "choices" and v is not None}
        parts = event.get("choices") or []
        if not isinstance(parts, list) or not all(isinstance(p, dict) for p in parts):
            raise _invalid(str(event))
        for part in parts:
            index = part.get("index")
            index = index if type(index) is int else 0
            has_text = _merge(choices.setdefault(index, {}), part)
            if has_text and FIRST_TOKEN_S not in reply:
                reply[FIRST_TOKEN_S] = _after(arrivals, end)
    ended = [choice.get("finish_reason") for choice in choices.values()]
    if not is_complete and not (ended and all(ended)):
        message = "the stream ended before the answer did"
        raise RequestFailedError(message, BROKEN_OFF, retryable=True)
    whole = [choices[index] for index in sorted(choices)]
    return {FIRST_TOKEN_S: 0.0, **reply, "choices": whole}


def first_token_s(reply: Mapping[str, Any]) -> float | None:
    """Seconds to the first token: of a stream, or as the server reports it (llama.cpp:
    ``timings``; Groq: ``usage``); 0 for a stream without text, ``None`` if unknown."""
    timings, usage = reply.get("timings"), reply.get("usage")
    for found, names, unit in (
        (reply, (FIRST_TOKEN_S,), 1.0),
        (timings, ("prompt_ms",), 0.001),
        (usage, ("prompt_time", "queue_time"), 1.0),
    ):
        if isinstance(found, Mapping):
            first, *more = [_seconds(found.get(name)) for name in names]
            if first:
                return unit * (first + sum(more))
    return 0.0 if FIRST_TOKEN_S in reply else None


def _seconds(value: Any) -> float:
    """A duration in a reply; 0 if missing or invalid."""
    if type(value) in (int, float) and 0 < value < _LONGEST:
        return float(value)
    return 0.0


def _events(text: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The events up to ``[DONE]``, which is ``None``, and the length of the stream up
    to their ends in bytes. Errors have the key ``error``."""
    end, n_bytes, kind = 0, 0, ""
    data: list[str] = []
    for line in _LINE.finditer(text):  # the last one is empty
        n_bytes += len(line[0].encode())
        name, _, value = line[1].partition(":")
        if name == "event":
            kind = value.strip()
        elif name == "data":
            data.append(value.strip())
            end = n_bytes
        elif not line[1].strip():
            for event in _objects(data):
                yield end, None if event is None else _with_error(event, kind)
            kind, data = "", []


def _objects(data: list[str]) -> Iterator[dict[str, Any] | None]:
    """The JSON object of an event's lines. Some servers leave out the blank line
    between two events: then each line has one."""
    text = "\n".join(data)
    whole = _object(text)
    if whole is not None:
        yield whole
        return
    for line in filter(None, data):
        event = None if line == "[DONE]" else _object(line)
        if event is None and line != "[DONE]":
            raise _invalid(text)
        yield event


def _with_error(event: dict[str, Any], kind: str) -> dict[str, Any]:
    failed = "error" in (kind, event.get("object"), event.get("type"))
    return {"error": event or kind} if failed and not event.get("error") else event


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _invalid(data: str) -> RequestFailedError:
    message = f"an event of the stream is invalid: {shortened(data)}"
    return RequestFailedError(message, retryable=True)


def _merge(choice: dict[str, Any], part: Mapping[str, Any]) -> bool:
    """Add a part to a choice; return whether it has text, of the reasoning included."""
    has_text = False
    delta = part.get("delta")
    if isinstance(delta, Mapping):
        message = choice.setdefault("message", {"content": None})
        has_text = _concatenate(message, delta)
    elif isinstance(part.get("text"), str):
        has_text = _concatenate(choice, {"text": part["text"]})
    logprobs = part.get("logprobs")
    if isinstance(logprobs, Mapping):
        known = choice.setdefault("logprobs", {})
        for name in _LISTS:
            if isinstance(logprobs.get(name), list):
                known.setdefault(name, []).extend(logprobs[name])
    for name in ("index", "finish_reason", "error"):
        if part.get(name) is not None:
            choice[name] = part[name]
    return has_text


def _concatenate(known: dict[str, Any], more: Mapping[str, Any]) -> bool:
    has_text = False
    for name, value in more.items():
        if name == "content" and (
            isinstance(value, list) or isinstance(known.get(name), list)
        ):  # parts (Mistral), which may follow strings and precede them
            known[name] = _parts(known.get(name)) + _parts(value)
        elif name == "tool_calls" and isinstance(value, list):
            _add_calls(known.setdefault(name, []), value)
        elif name == "function_call" and isinstance(value, Mapping):
            _add_to_call(known.setdefault(name, {}), value)
        elif isinstance(value, str) and name != "role":
            known[name] = (known.get(name) or "") + value
        else:
            continue
        has_text |= bool(value)
    return has_text


def _add_calls(calls: list[dict[str, Any]], pieces: list[Any]) -> None:
    """Add pieces of tool calls to those with their index, else the last (Ollama)."""
    for piece in pieces:
        if not isinstance(piece, Mapping):
            continue
        index, function = piece.get("index"), piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        has_index = type(index) is int
        same = [one for one in calls if not has_index or one.get("index") == index]
        if not same or _begins(same[-1], piece.get("id"), function, has_index):
            same = [{"index": index, "type": "function", "function": {}}]
            calls += same
        if piece.get("id"):
            same[-1].setdefault("id", piece["id"])
        _add_to_call(same[-1]["function"], function)


def _begins(
    call: Mapping[str, Any], id_: Any, piece: Mapping[str, Any], has_index: bool
) -> bool:
    """Whether a piece begins another call. Some servers give all calls the same index
    (Google) or none, others repeat the name or make a new id for each piece (vLLM)."""
    known, name = call["function"], piece.get("name")
    if not name:
        return not has_index and bool(id_) and id_ != call.get("id")
    if id_ and call.get("id"):
        return bool(id_ != call["id"])
    arguments = known.get("arguments")
    if isinstance(arguments, str) and arguments and _object(arguments) is None:
        return False
    return bool(
        name != known.get("name", name) or (arguments and piece.get("arguments"))
    )


def _add_to_call(call: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a piece: the first name counts, and the texts of arguments are joined."""
    if piece.get("name"):
        call.setdefault("name", piece["name"])
    arguments = piece.get("arguments")
    if isinstance(arguments, str):
        call["arguments"] = str(call.get("arguments") or "") + arguments
    elif arguments is not None:
        call["arguments"] = arguments


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _after(arrivals: Sequence[Arrival], end: int) -> float:
    """When the first ``end`` bytes had arrived."""
    return next((one.after_s for one in arrivals if one.end >= end), 0.0)
