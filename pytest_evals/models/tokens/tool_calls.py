"""Tool calls in the text of a local model, by the format of its chat template.

The format is known from the template, not from the reply, so that an answer about the
format stays text. :data:`FORMATS` lists the formats. A reply that cannot be read
exactly stays text. Sources of the forms: the chat templates of these families and
vLLM's parsers (``vllm/tool_parsers``); no code is taken from there.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.returned import calls_of

ParameterTypes = Mapping[str, Mapping[str, Any]]  # Tool → parameter → JSON Schema

_NAMES = {"true": True, "false": False, "null": None}  # JSON's names in Python's syntax


def parameter_types(tools: str) -> ParameterTypes:
    """The schemas of the parameters of tools. ``tools``: OpenAI's ``tools`` as JSON."""
    found = dict[str, Mapping[str, Any]]()
    for tool in json.loads(tools) if tools else ():
        function = tool.get("function") or {}
        parameters = function.get("parameters")
        properties = parameters.get("properties") if parameters else None
        if isinstance(properties, Mapping):
            found[str(function.get("name"))] = properties
    return found


def cast_text(text: str, schema: Any) -> Any:
    """The value of an argument that is written as text: text for a parameter of type
    ``string``, otherwise a JSON value, or ``True``, ``False`` or ``None``. Other text
    stays text."""
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    bare = text.strip()
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(bare, text)


def python_calls(text: str) -> list[dict[str, Any]]:
    """The calls in a list such as ``[f(a=1), g()]``: keyword arguments with literals,
    of which nothing is evaluated. Raises ``ValueError`` if it is something else."""
    try:
        listed = ast.parse(text, mode="eval").body
    except (SyntaxError, MemoryError):
        raise ValueError from None
    if not isinstance(listed, ast.List) or not listed.elts:
        raise ValueError
    return [_call(one) for one in listed.elts]


def _call(node: ast.expr) -> dict[str, Any]:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError
    arguments = dict[str, Any]()
    for one in node.keywords:
        if one.arg is None or one.arg in arguments:
            raise ValueError
        arguments[one.arg] = ast.literal_eval(_JsonNames().visit(one.value))
    return {"name": _name(node.func), "arguments": arguments}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if not isinstance(node, ast.Name):
        raise ValueError
    return node.id


class _JsonNames(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_NAMES[node.id]) if node.id in _NAMES else node


UNREAD = "replies with tool calls that cannot be read exactly stay text"
UNREAD_CALL: Mapping[str, Any] = {
    "name": "(unread)",
    "arguments": {},
    "error": "cannot be read exactly; it is in the text",
}
"""Such a call in a reply with other calls: the reply has more than those."""

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_NAMED = re.compile(r"\s*([\w.-]{1,64})(?:\[CALL_ID\]([\w-]+))?(?:\[ARGS\]\s*)?(?=\{)")
_FUNCTION = re.compile(r"\s*<function=([\w.-]+)>\s*")
_PARAMETER = re.compile(
    r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*(?=<parameter=|</function>)",
    re.DOTALL,
)
_NAME = re.compile(r"\s*([\w.-]+)\s*")
_PAIR = re.compile(
    r"<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*"
    r"(?=<arg_key>|</tool_call>)",
    re.DOTALL,
)
_FENCED = re.compile(
    r"\s*function<｜tool▁sep｜>([^\n]+)\n```json\n(.*?)\n```\s*<｜tool▁call▁end｜>",
    re.DOTALL,
)
_PLAIN = re.compile(r"\s*([^<\n]+)<｜tool▁sep｜>(.*?)<｜tool▁call▁end｜>", re.DOTALL)
_LLAMA_TAGS = re.compile(
    r"<\|(?:python_tag|python_start|python_end|eot_id|eom_id|eot|eom|end_of_text)\|>"
)
_THOUGHT, _THOUGHT_END = "<think>", "</think>"
_LLAMA_START = (
    rf"(?:\A|(?<={_THOUGHT_END}))"
    r'(?=\s*(?:<\|python_(?:tag|start)\|>|\[?\s*\{\s*"name"|\[\w))'
)
_TOOL_CALL, _CLOSING = "<tool_call>", "</tool_call>"
_KEYS = {"name", "arguments", "id"}


class ParsedReply(NamedTuple):
    """The text of a reply without its calls, the calls, and whether a part that begins
    like a call could not be read; that part is in the text, and :data:`UNREAD_CALL` if
    there are other calls."""

    text: str
    calls: tuple[Mapping[str, Any], ...]
    is_unread: bool = False


_Read = Callable[[str, ParameterTypes], tuple[Sequence[Any], str]]
"""Text after an opening tag and types of parameters → calls, and the text behind them,
which may have further ones.

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
        kept, calls = list[str](), list[Mapping[str, Any]]()
        opening = re.escape(self.opening) or _LLAMA_START
        search, at = re.compile(f"{_THOUGHT}|{_THOUGHT_END}|{opening}").search, 0
        while mark := search(text, at):
            kept.append(text[at : mark.start()])
            at = mark.end()
            if mark[0] == _THOUGHT:
                end = text.find(_THOUGHT_END, at)
                at = end + len(_THOUGHT_END) if end >= 0 else len(text)
                kept.append(text[mark.start() : at])
            elif mark[0] == _THOUGHT_END:  # the prompt has opened the reasoning
                kept, calls = [text[:at]], []
            else:
                try:
                    given, behind = self.read(text[at:], types)
                    calls += calls_of(given)
                    at = len(text) - len(behind)
                except (ValueError, TypeError, RecursionError):
                    calls.append(UNREAD_CALL)
                    kept.append(mark[0])
                    if not self.opening:
                        break
        is_unread = UNREAD_CALL in calls
        if all(one is UNREAD_CALL for one in calls):
            return ParsedReply(text, (), is_unread)
        answer = "".join([*kept, text[at:]])
        for tag in self.dropped:
            answer = answer.replace(tag, "")
        return ParsedReply(answer.strip(), tuple(calls), is_unread)


def parser_of(template: str) -> ToolFormat | None:
    """Return the format of a chat template; ``None`` for an unknown one."""
    return next((one for one in FORMATS if re.search(one.signs, template)), None)


def _json_calls(piece: str, types: ParameterTypes) -> tuple[Sequence[Any], str]:
    """One JSON object, or a list of them; the last closing tag may be missing."""
    found, behind = _objects(piece)
    if behind.startswith(_CLOSING):
        return found, behind.removeprefix(_CLOSING)
    if behind and not behind.startswith(_TOOL_CALL):
        raise ValueError
    return found, behind


def _mistral_calls(piece: str, types: ParameterTypes) -> tuple[Sequence[Any], str]:
    """A JSON list, or one ``NAME[ARGS]{…}``; text may follow."""
    if match := _NAMED.match(piece):
        arguments, at = _value(piece, match.end())
        call = {"name": match[1], "arguments": arguments}
        found, behind = [call | ({"id": match[2]} if match[2] else {})], piece[at:]
    else:
        found, behind = _objects(piece)
    if behind.lstrip().startswith(("]", "}", ",", ":", '"')):
        raise ValueError  # the JSON goes on
    return found, behind


def _objects(piece: str) -> tuple[list[Any], str]:
    """The calls in a JSON object or list, and the text behind it."""
    found, at = _value(piece, 0)
    calls = found if isinstance(found, list) else [found]
    if not calls or not all(
        isinstance(one, dict) and one.keys() <= _KEYS for one in calls
    ):
        raise ValueError
    return calls, piece[at:].lstrip()


def _tagged_calls(piece: str, types: ParameterTypes) -> tuple[Sequence[Any], str]:
    """``<function=NAME><parameter=KEY>value</parameter></function>``."""
    calls, behind = _cast_calls(_FUNCTION, _PARAMETER, "</function>", piece, types)
    return calls, behind.lstrip().removeprefix(_CLOSING)


def _pair_calls(piece: str, types: ParameterTypes) -> tuple[Sequence[Any], str]:
    """``NAME<arg_key>KEY</arg_key><arg_value>value</arg_value>``."""
    return _cast_calls(_NAME, _PAIR, _CLOSING, piece, types)


def _cast_calls(
    head: re.Pattern[str],
    part: re.Pattern[str],
    closing: str,
    piece: str,
    types: ParameterTypes,
) -> tuple[Sequence[Any], str]:
    """A call whose values are texts, with the types of the tool's parameters."""
    match = head.match(piece)
    if match is None:
        raise ValueError
    name, arguments, at = match[1], dict[str, Any](), match.end()
    while match := part.match(piece, at):
        key = match[1].strip()
        if key in arguments:
            raise ValueError
        arguments[key] = cast_text(match[2], types.get(name, {}).get(key))
        at = match.end()
    if not piece.startswith(closing, at):
        raise ValueError
    call = {"name": name, "arguments": arguments}
    return [call], piece[at + len(closing) :]


def _deepseek_calls(piece: str, types: ParameterTypes) -> tuple[Sequence[Any], str]:
    match = _FENCED.match(piece) or _PLAIN.match(piece)
    if match is None:
        raise ValueError
    call = {"name": match[1].strip(), "arguments": match[2].strip()}
    return [call], piece[match.end() :]


def _llama_calls(piece: str, types: ParameterTypes) -> tuple[Sequence[Any], str]:
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
    keys = [{*one} if isinstance(one, dict) else {} for one in calls]
    if not keys or any(one != {"name", "parameters"} for one in keys):
        raise ValueError
    return [{"name": one["name"], "arguments": one["parameters"]} for one in calls], ""


def _value(text: str, at: int) -> tuple[Any, int]:
    blank = _BLANK.match(text, at)
    assert blank is not None
    return _DECODER.raw_decode(text, blank.end())


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
    """Whether a reply resembles tool calls, or tells of them; for notes only."""
    return _CALL_TEXT.match(text) is not None
