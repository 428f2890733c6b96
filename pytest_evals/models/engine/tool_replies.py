"""Replies of a local model to requests with tools: their calls, read from the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from pytest_evals.core.request import TOOLS, Generate, Response
from pytest_evals.models.tokens.chat_template import template_text
from pytest_evals.models.tokens.tool_calls import (
    UNKNOWN,
    UNREAD,
    ToolFormat,
    parser_of,
)
from pytest_evals.models.tokens.tool_values import parameter_types


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

    def read(self, request: Generate, response: Response) -> Response:
        """Return a response with its calls, and without them in its text. ``response``:
        its text has special tokens if the request has tools."""
        if response.error or not keeps_special_tokens(request):
            return response
        if self._parser is None:
            self._is_unknown = True
            return replace(response, text=self._plain(response.text))
        tools = str(dict(request.options)[TOOLS] or "")
        found = self._parser(response.text, parameter_types(tools))
        self._n_unread += found.is_unread
        return replace(response, text=self._plain(found.text), calls=found.calls)

    def _plain(self, text: str) -> str:
        """The text without special tokens."""
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
