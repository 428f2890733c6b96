"""Requests of a document as text: the context, the scored continuation, and the token
boundaries.

Every boundary is marked with ``│``. Line breaks are shown as ``⏎`` and kept; other
control characters are escaped, so a dataset cannot move the cursor.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_evals.core.model import RequestTokenizer, TokenStrings
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Prompt, Request, Rolling
from pytest_evals.errors import DocumentError, plural
from pytest_evals.reports.escape import one_line

_EDGE, _BREAK = "│", "⏎"


def prompt_lines(
    record: Record, name: str, tokenizer: RequestTokenizer | None
) -> Iterator[str]:
    """Yield the document's requests; a repeated context is omitted. ``tokenizer``
    splits requests into tokens; ``None`` to show text only."""
    n = len(record.requests)
    yield f"{one_line(name)}: {plural(n, 'request')}"
    if record.error:
        yield f"  error: {one_line(record.error)}"
    before: list[str] = []
    for number, request in enumerate(record.requests, 1):
        try:
            cut = tokenizer.token_strings(request) if tokenizer is not None else None
        except DocumentError as error:
            yield f"  request {number} cannot be sent: {one_line(error)}"
            cut = None
        context = _context(request, cut)
        if context != before:
            yield from context
        before = context
        yield from _rest(request, cut, number)


def _context(request: Request, cut: TokenStrings | None) -> list[str]:
    """Yield the context, under a heading."""
    if isinstance(request, Rolling):
        pieces = cut.context if cut else ()
        return [f"  before the text{_count(cut, 0)}:", *_block(pieces)] if cut else []
    prompt = request.prompt if isinstance(request, Generate) else request.context
    word = "prompt" if isinstance(request, Generate) else "context"
    if cut is not None:
        return [f"  {word}{_count(cut, 0)}:", *_block(cut.context)]
    return [f"  {word}:", *_messages(prompt)]


def _messages(prompt: Prompt) -> list[str]:
    """Yield a prompt without its tokens; one block for each message of a chat."""
    if isinstance(prompt, str):
        return _block((prompt,))
    lines = []
    for message in prompt:
        lines += [f"   {message.role}:", *_block((message.content,))]
    return lines


def _rest(request: Request, cut: TokenStrings | None, number: int) -> Iterator[str]:
    """Yield the scored continuation, or the generation settings."""
    if isinstance(request, Generate):
        stops = ", ".join(repr(text) for text in request.stop) or "the end of text"
        yield f"  answer: until {stops}; at most {plural(request.max_tokens, 'token')}"
        return
    if isinstance(request, Loglikelihood):
        word, text = f"continuation {number}", request.continuation
    else:
        word, text = "text", request.text
    block = _block(cut.continuation if cut else (text,))
    if len(block) == 1:
        yield f"  {word}{_count(cut, 1)}: {block[0].strip()}"
    else:
        yield f"  {word}{_count(cut, 1)}:"
        yield from block


def _count(cut: TokenStrings | None, part: int) -> str:
    if cut is None:
        return ""
    n = cut.n_continuation if part else cut.n_context
    return f" ({plural(n, 'token')})"


def _block(pieces: tuple[str, ...]) -> list[str]:
    """Yield tokens between boundary marks, indented, one line for each line."""
    text = _EDGE + "".join(f"{one_line(piece)}{_EDGE}" for piece in pieces)
    lines = text.replace(_BREAK, f"{_BREAK}\n").split("\n")
    if lines[-1] == _EDGE and len(lines) > 1:
        lines[-2:] = [lines[-2] + _EDGE]
    return [one_line(f"    {line}") for line in lines]
