"""Tool calls in the text of a local model, by the format of its chat template.

The format is known from the template, not from the reply, so that an answer about the
format stays text. Formats: Hermes and Qwen (``<tool_call>``, JSON, ``</tool_call>``,
repeated) and Mistral (``[TOOL_CALLS]`` with a JSON list; from its tokenizer v11 on
``[TOOL_CALLS]NAME[ARGS]{…}``, repeated). Sources: vLLM's ``hermes_tool_parser.py`` and
``mistral_tool_parser.py`` for the forms; no code is taken from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_evals.core.returned import calls_of

UNKNOWN = (
    "the format of tool calls in this model's chat template is not known, so its "
    "replies stay text; known are Hermes and Qwen (<tool_call>) and Mistral "
    "([TOOL_CALLS])"
)
UNREAD = "replies with tool calls that are not valid JSON stay text"

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_NAMED = re.compile(r"\s*([\w.-]{1,64})(?:\[CALL_ID\]([\w-]+))?(?:\[ARGS\])?\s*(?=\{)")
_THOUGHT = "</think>"


class ParsedReply(NamedTuple):
    """The text of a reply without its calls, the calls, and whether a part that begins
    like a call could not be read; that part is in the text."""

    text: str
    calls: tuple[Mapping[str, Any], ...]
    is_unread: bool = False


Parser = Callable[[str], ParsedReply]


def parser_of(template: str) -> Parser | None:
    """Return the parser of a chat template's replies; ``None`` for another format."""
    if "[TOOL_CALLS]" in template:
        return _mistral
    if "<tool_call>" in template and "<function=" not in template:
        return _hermes
    return None


def _hermes(text: str) -> ParsedReply:
    return _parsed(text, "<tool_call>", _hermes_calls)


def _mistral(text: str) -> ParsedReply:
    return _parsed(text, "[TOOL_CALLS]", _mistral_calls)


_Read = Callable[[str], tuple[list[Any], str]]
"""Text after an opening tag → calls, and the text behind them.

Raises:
    ValueError: It is not a call.
"""


def _parsed(text: str, opening: str, read: _Read) -> ParsedReply:
    """The calls after the reasoning of a reply; text around them is its text."""
    end = text.rfind(_THOUGHT)
    start = end + len(_THOUGHT) if end >= 0 else 0
    if end < 0 and "<think>" in text:  # reasoning that did not end
        return ParsedReply(text, ())
    thought, rest = text[:start], text[start:]
    first, *pieces = rest.split(opening)
    kept, calls, is_unread = [first], list[Mapping[str, Any]](), False
    for piece in pieces:
        try:
            given, behind = read(piece)
            calls += calls_of(given)
            kept.append(behind)
        except (ValueError, TypeError, RecursionError):
            is_unread = True
            kept.append(opening + piece)
    if not calls:
        return ParsedReply(text, (), is_unread)
    answer = "".join(kept).strip()
    return ParsedReply(thought + answer, tuple(calls), is_unread)


def _hermes_calls(piece: str) -> tuple[list[Any], str]:
    """One JSON object; the last closing tag may be missing."""
    call, at = _value(piece, 0)
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise ValueError
    behind = piece[at:].lstrip()
    return [call], behind.removeprefix("</tool_call>")


def _mistral_calls(piece: str) -> tuple[list[Any], str]:
    if piece.lstrip().startswith("["):
        listed, at = _value(piece, 0)
        if not all(isinstance(one, dict) for one in listed):
            raise ValueError
        return listed, piece[at:]
    calls, at = [*_named(piece)], 0
    if not calls:
        raise ValueError
    at = calls[-1][1]
    return [call for call, _ in calls], piece[at:]


def _named(piece: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield ``NAME[ARGS]{…}`` calls, each with the position behind it."""
    at = 0
    while match := _NAMED.match(piece, at):
        arguments, at = _value(piece, match.end())
        call = {"name": match[1], "arguments": arguments}
        yield call | ({"id": match[2]} if match[2] else {}), at


def _value(text: str, at: int) -> tuple[Any, int]:
    """A JSON value, and the position behind it."""
    blank = _BLANK.match(text, at)
    assert blank is not None
    return _DECODER.raw_decode(text, blank.end())
