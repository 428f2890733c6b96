"""Tool calls in the text of a local model, by the format of its chat template.

The format is known from the template, not from the reply, so that an answer about the
format stays text. :data:`FORMATS` lists the formats. A reply that cannot be read
exactly stays text. Sources of the forms: the chat templates of these families and
vLLM's parsers (``vllm/tool_parsers``); no code is taken from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_evals.core.returned import calls_of
from pytest_evals.models.tokens.tool_values import (
    ParameterTypes,
    cast_text,
    python_calls,
)

UNREAD = "replies with tool calls that cannot be read exactly stay text"

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_NAMED = re.compile(r"\s*([\w.-]{1,64})(?:\[CALL_ID\]([\w-]+))?(?:\[ARGS\])?\s*(?=\{)")
_FUNCTION = re.compile(
    r"\s*<function=([\w.-]+)>\s*((?:<parameter=.*?</parameter>\s*)*)</function>"
    r"\s*(?:</tool_call>)?",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"<parameter=([^>]+)>\n?(.*?)\n?</parameter>\s*(?=<parameter=|$)", re.DOTALL
)
_PAIRS = re.compile(
    r"\s*([\w.-]+)\s*((?:<arg_key>.*?</arg_key>\s*<arg_value>.*?</arg_value>\s*)*)"
    r"</tool_call>",
    re.DOTALL,
)
_PAIR = re.compile(
    r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL
)
_FENCED = re.compile(
    r"\s*function<｜tool▁sep｜>([^\n]+)\n```json\n(.*?)\n```\s*<｜tool▁call▁end｜>",
    re.DOTALL,
)
_PLAIN = re.compile(r"\s*([^<\n]+)<｜tool▁sep｜>(.*?)<｜tool▁call▁end｜>", re.DOTALL)
_LLAMA_TAGS = re.compile(
    r"<\|(?:python_tag|python_start|python_end|eot_id|eom_id|eot|eom|end_of_text)\|>"
)
_LLAMA_START = re.compile(r'\s*(?:<\|python_(?:tag|start)\|>|\[?\s*\{\s*"name"|\[\w)')
_THOUGHT = "</think>"


class ParsedReply(NamedTuple):
    """The text of a reply without its calls, the calls, and whether a part that begins
    like a call could not be read; that part is in the text."""

    text: str
    calls: tuple[Mapping[str, Any], ...]
    is_unread: bool = False


_Read = Callable[[str, ParameterTypes], tuple[list[Any], str]]
"""Text after an opening tag and types of parameters → calls, and the text behind them.

Raises:
    ValueError: It is not a call.
"""


class ToolFormat(NamedTuple):
    """A format of tool calls in text.

    Args:
        families: Models that use it.
        signs: Pattern of a text in their templates.
        opening: Text in front of calls; empty if a reply has calls only.
        read: Reads the text after it.
        dropped: Further tags around calls.
    """

    families: str
    signs: str
    opening: str
    read: _Read
    dropped: tuple[str, ...] = ()

    def __call__(self, text: str, types: ParameterTypes) -> ParsedReply:
        """The calls after the reasoning of a reply; text around them is its text."""
        end = text.rfind(_THOUGHT)
        start = end + len(_THOUGHT) if end >= 0 else 0
        if end < 0 and "<think>" in text:  # reasoning that did not end
            return ParsedReply(text, ())
        thought, rest = text[:start], text[start:]
        first, pieces = "", [rest] if _LLAMA_START.match(rest) else []
        if self.opening:
            first, *pieces = rest.split(self.opening)
        kept, calls, is_unread = [first], list[Mapping[str, Any]](), False
        for piece in pieces:
            try:
                given, behind = self.read(piece, types)
                calls += calls_of(given)
                kept.append(behind)
            except (ValueError, TypeError, RecursionError):
                is_unread = True
                kept.append(self.opening + piece)
        if not calls:
            return ParsedReply(text, (), is_unread)
        answer = "".join(kept)
        for tag in self.dropped:
            answer = answer.replace(tag, "")
        return ParsedReply(thought + answer.strip(), tuple(calls), is_unread)


def parser_of(template: str) -> ToolFormat | None:
    """Return the format of a chat template; ``None`` for an unknown one."""
    return next((one for one in FORMATS if re.search(one.signs, template)), None)


def _json_calls(piece: str, types: ParameterTypes) -> tuple[list[Any], str]:
    """One JSON object, or a list of them; the last closing tag may be missing."""
    found, at = _value(piece, 0)
    calls = found if isinstance(found, list) else [found]
    if not calls or not all(map(_is_call, calls)):
        raise ValueError
    return calls, piece[at:].lstrip().removeprefix("</tool_call>")


def _is_call(given: Any) -> bool:
    return isinstance(given, dict) and isinstance(given.get("name"), str)


def _mistral_calls(piece: str, types: ParameterTypes) -> tuple[list[Any], str]:
    if piece.lstrip().startswith("["):
        listed, at = _value(piece, 0)
        if not all(isinstance(one, dict) for one in listed):
            raise ValueError
        return listed, piece[at:]
    calls = [*_named(piece)]
    if not calls:
        raise ValueError
    return [call for call, _ in calls], piece[calls[-1][1] :]


def _named(piece: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield ``NAME[ARGS]{…}`` calls, each with the position behind it."""
    at = 0
    while match := _NAMED.match(piece, at):
        arguments, at = _value(piece, match.end())
        call = {"name": match[1], "arguments": arguments}
        yield call | ({"id": match[2]} if match[2] else {}), at


def _tagged_calls(piece: str, types: ParameterTypes) -> tuple[list[Any], str]:
    """``<function=NAME><parameter=KEY>value</parameter></function>``."""
    return _cast_calls(_FUNCTION, _PARAMETER, piece, types)


def _pair_calls(piece: str, types: ParameterTypes) -> tuple[list[Any], str]:
    """``NAME<arg_key>KEY</arg_key><arg_value>value</arg_value>``."""
    return _cast_calls(_PAIRS, _PAIR, piece, types)


def _cast_calls(
    whole: re.Pattern[str], part: re.Pattern[str], piece: str, types: ParameterTypes
) -> tuple[list[Any], str]:
    """A call whose values are texts, with the types of the tool's parameters."""
    match = whole.match(piece)
    if match is None:
        raise ValueError
    known = types.get(match[1], {})
    pairs = [(key.strip(), value) for key, value in part.findall(match[2])]
    arguments = {key: cast_text(value, known.get(key)) for key, value in pairs}
    return [{"name": match[1], "arguments": arguments}], piece[match.end() :]


def _deepseek_calls(piece: str, types: ParameterTypes) -> tuple[list[Any], str]:
    match = _FENCED.match(piece) or _PLAIN.match(piece)
    if match is None:
        raise ValueError
    call = {"name": match[1].strip(), "arguments": match[2].strip()}
    return [call], piece[match.end() :]


def _llama_calls(piece: str, types: ParameterTypes) -> tuple[list[Any], str]:
    """JSON objects with ``parameters``, in a list or separated by semicolons; or calls
    in Python's syntax. Nothing else is in the reply."""
    body = _LLAMA_TAGS.sub("", piece).strip()
    if re.match(r"\[\s*\w", body):
        return python_calls(body), ""
    calls, at = list[Any](), 0
    while at < len(body):
        found, at = _value(body, at)
        calls += found if isinstance(found, list) else [found]
        blank = _BLANK.match(body, at)
        at = blank.end() if blank else at
        if at < len(body):
            if body[at] != ";":
                raise ValueError
            at += 1
    if not calls or not all(_is_call(one) and "parameters" in one for one in calls):
        raise ValueError
    return [{"name": one["name"], "arguments": one["parameters"]} for one in calls], ""


def _value(text: str, at: int) -> tuple[Any, int]:
    """A JSON value, and the position behind it."""
    blank = _BLANK.match(text, at)
    assert blank is not None
    return _DECODER.raw_decode(text, blank.end())


_TOOL_CALL = "<tool_call>"
FORMATS = (
    ToolFormat("Mistral", r"\[TOOL_CALLS\]", "[TOOL_CALLS]", _mistral_calls),
    ToolFormat("Qwen3-Coder", "<function=", _TOOL_CALL, _tagged_calls),
    ToolFormat("GLM-4.5", "<arg_key>", _TOOL_CALL, _pair_calls),
    ToolFormat("Granite 3", r"<\|tool_call\|>", "<|tool_call|>", _json_calls),
    ToolFormat("Hermes, Qwen, Granite 4", _TOOL_CALL, _TOOL_CALL, _json_calls),
    ToolFormat(
        "DeepSeek V3, R1, V3.1",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        _deepseek_calls,
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ),
    ToolFormat(
        "Llama 3.1 to 4",
        r'<\|python_(?:tag|start)\|>|"name": function name|\[func_name1\(',
        "",
        _llama_calls,
    ),
)
"""The formats; the first one whose sign is in a template is that of its replies."""
UNKNOWN = (
    "the format of tool calls in this model's chat template is not known, so its "
    f"replies stay text; known are {'; '.join(one.families for one in FORMATS)}"
)
_CALL_TEXT = re.compile(
    r'\s*(?:<\|python_(?:tag|start)\|>|\[?\s*\{\s*"name")'
    + "".join(
        f"|.*{re.escape(one)}" for one in {one.opening for one in FORMATS} if one
    ),
    re.DOTALL,
)


def looks_like_calls(text: str) -> bool:
    """Whether a reply resembles tool calls of one of the formats, or an answer about
    them; for notes only."""
    return _CALL_TEXT.match(text) is not None
