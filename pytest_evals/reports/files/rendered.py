"""Requests as the model reads them: chats as the text that its template makes of them.

Samples have them in this form, as lm-eval's have, and their hashes are of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Prompt, Request
from pytest_evals.errors import DocumentError

Render = Callable[[Prompt], Prompt]
"""The text of a prompt; ``DocumentError`` if the template refuses the chat."""


def rendered(record: Record, render: Render) -> Record:
    """The record with texts for chats; a chat that cannot be rendered stays one."""
    return replace(record, requests=tuple(_text(q, render) for q in record.requests))


def _text(request: Request, render: Render) -> Request:
    try:
        if isinstance(request, Loglikelihood):
            return replace(request, context=render(request.context))
        if isinstance(request, Generate):
            return replace(request, prompt=render(request.prompt))
    except DocumentError:
        pass
    return request
