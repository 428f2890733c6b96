"""Completions: stop strings, the model's thinking, and tool calls in their text."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from pytest_evals.core.request import TOOLS, Generate, Request, Response
from pytest_evals.models.tokens.chat_template import template_text
from pytest_evals.models.tokens.request_encoder import RequestEncoder
from pytest_evals.models.tokens.tool_calls import (
    UNKNOWN,
    UNREAD,
    ToolFormat,
    parameter_types,
    parser_of,
)

BROKEN = "\ufffd"
"""Replacement character that decoders return for incomplete UTF-8 sequences."""


class StopStrings:
    """The stop strings of a sequence, which ends as soon as its text contains one.

    Tokens are decoded only if the last one may complete a stop string: if its own
    string contains the last character of one, or is ambiguous.
    """

    def __init__(self, encoder: RequestEncoder, strings: tuple[str, ...]) -> None:
        """``strings`` must not be empty strings."""
        self.strings = strings
        self._encoder = encoder
        # A token with text is a byte or more, and a tokenizer may drop a space at the
        # start of a text.
        self._span = max((len(s.encode()) + 4 for s in strings), default=0)
        # A part of a character decodes to it, too.
        if any(BROKEN in s for s in strings):
            self._span = sys.maxsize
        last = {s[-1] for s in strings}
        # A blank is shown or not according to the tokens around it.
        vague = BROKEN in last or " " in last
        self._last = frozenset(last)
        self._always = vague or not encoder.only_appends
        self._may_end: dict[int, bool] = {}
        self._has_text: dict[int, bool] = {}

    def tail(self, tokens: Sequence[int]) -> Sequence[int]:
        """The last tokens, enough to contain any stop string that the last of them
        completes; empty if it completes none."""
        if not self.strings or not (self._always or self._may(tokens[-1])):
            return ()
        start, n = len(tokens), 0
        while start > 0 and n < self._span:
            start -= 1
            n += self._has(tokens[start])
        return tokens[start:]

    def in_text(self, text: str) -> bool:
        """Whether a string contains a stop string."""
        return any(stop in text for stop in self.strings)

    def _has(self, token: int) -> bool:
        """Whether a token decodes to any text between others."""
        known = self._has_text.get(token)
        if known is None:
            one, two = self._encoder.decode_all([[token], [token, token]])
            known = self._has_text[token] = bool(one or two)
        return known

    def _may(self, token: int) -> bool:
        known = self._may_end.get(token)
        if known is None:
            (text,) = self._encoder.decode_all([[token]])
            known = BROKEN in text or not self._last.isdisjoint(text)
            self._may_end[token] = known
        return known


class Completion(NamedTuple):
    """The text of a completion."""

    text: str  # What follows the model's thinking; all of it without a mark
    has_mark: bool  # Whether the mark that ends the thinking occurs
    is_cut: bool  # Whether the text was cut at a stop string


def completion_of(
    encoder: RequestEncoder,
    request: Generate,
    tokens: Sequence[int],
    ends: Collection[int | None],
    mark: str,
) -> Completion:
    """The completion without the model's thinking (lm-eval 0.4.13,
    ``HFLM.generate_until``) and what follows its stop strings. ``ends``: ids of
    end-of-sequence tokens. ``mark``: the string, or the id as digits, that ends the
    thinking; empty for none."""
    specials = keeps_special_tokens(request)
    if specials and tokens and tokens[-1] in ends:
        tokens = tokens[:-1]
    text, after = encoder.decode(tokens, specials), list[str]()
    if mark:
        after = text.split(mark)[1:]
        if mark.isdigit():
            places = [i for i, token in enumerate(tokens) if token == int(mark)]
            after = [encoder.decode(tokens[i + 1 :], specials) for i in places[-1:]]
        text = (after[-1] if after else text).lstrip()
    shown = cut_at_stops(text, (*request.stop, encoder.end_text))
    return Completion(shown, bool(after), shown != text)


def cut_at_stops(text: str, stops: Iterable[str]) -> str:
    """The string before its stop strings, applied in order (lm-eval 0.4.13,
    ``models/utils.py``, ``postprocess_generated_text``)."""
    for stop in filter(None, stops):
        text = text.split(stop)[0]
    return text


class ToolReplies:
    """Reads the replies of one model."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._is_unknown = False
        self._n_unread = 0

    def close(self) -> None:
        """Free the tokenizer; the notes stay."""
        del self._tokenizer

    @cached_property
    def _parser(self) -> ToolFormat | None:
        return parser_of(template_text(self._tokenizer, has_tools=True))

    def read(self, request: Request, response: Response) -> Response:
        """Return a response with its calls, and without them in its text. ``response``:
        its text has special tokens if the request has tools."""
        if response.error or not isinstance(request, Generate):
            return response
        if not keeps_special_tokens(request):
            return response
        if self._parser is None:
            self._is_unknown = True
            return replace(response, text=self._plain(response.text))
        tools = str(dict(request.options)[TOOLS] or "")
        found = self._parser(response.text, parameter_types(tools))
        self._n_unread += found.is_unread
        return replace(response, text=self._plain(found.text), calls=found.calls)

    def _plain(self, text: str) -> str:
        for one in self._tokenizer.all_special_tokens:
            text = text.replace(one, "")
        return text

    @property
    def notes(self) -> Iterator[str]:
        """Warnings about the replies so far."""
        if self._is_unknown:
            yield UNKNOWN
        if self._n_unread:
            yield f"{self._n_unread} {UNREAD}"


def keeps_special_tokens(request: Generate) -> bool:
    """Whether a reply is decoded with special tokens: those around calls are some."""
    return any(name == TOOLS for name, _ in request.options)
