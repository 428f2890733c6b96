"""Client-side tokenization with a local copy of the served model's tokenizer: the
server receives exact token ids, and prompts that are too long are truncated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.request import (
    IMAGE_OPTIONS,
    Generate,
    Loglikelihood,
    Request,
    Rolling,
    with_tools,
)
from pytest_evals.models.tokens.loader import load_tokenizer
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)
from pytest_evals.models.tokens.settings import TokenizerSettings
from pytest_evals.models.tokens.spans import (
    ScoredSpan,
    fit_prompt,
    span_of,
    windows_of,
)

_UNBOUNDED = 2**31
"""Limit for vocabulary and context window, which only the server knows."""
_RESERVED = 2
"""Tokens that servers need in addition to a local model: one new token, and the last
scored token, which is also an input."""

Spans = tuple[ScoredSpan, ...]
"""The sequences of one scored request; only rolling requests have several."""


class FittedPrompt(NamedTuple):
    """A prompt that exceeds the context window together with its token limit."""

    max_tokens: int  # Most new tokens
    n_prompt: int  # Tokens of the whole prompt
    ids: list[int]  # Its last tokens; empty if nothing had to be cut


class ServerTokenizer:
    """A tokenizer with the special-token rules of ``hf:`` models."""

    def __init__(
        self, target: str, template_args: Mapping[str, Any] | None = None
    ) -> None:
        """Load it from a folder or the Hub."""
        settings = TokenizerSettings(
            target=target, chat_template_args=template_args or {}
        )
        self._encoder = RequestEncoder(load_tokenizer(settings), settings, _UNBOUNDED)

    def scored(
        self, requests: Iterable[Request], window: int = 0
    ) -> Mapping[Request, Spans | str]:
        """Token spans of log-likelihood and rolling requests, or their errors.
        ``window``: tokens of the server's window, 0 if unknown. Contexts are cut, and
        whole texts are split as by an ``hf:`` model, to one token less (lm-eval 0.4.13,
        ``VLLM._loglikelihood_tokens``)."""
        most = (window or _UNBOUNDED) - _RESERVED
        pairs = [r for r in requests if isinstance(r, Loglikelihood)]
        texts = [r for r in requests if isinstance(r, Rolling)]
        found: dict[Request, Spans | str] = {}
        for request, pair in zip(pairs, self._encoder.pairs(pairs), strict=True):
            line = (
                pair if isinstance(pair, InvalidRequestError) else span_of(pair, most)
            )
            found[request] = (
                str(line) if isinstance(line, InvalidRequestError) else (line,)
            )
        if not texts:
            return found
        first = self._encoder.prefix()
        known = self._encoder.texts(text.text for text in texts)
        for text, ids in zip(texts, known, strict=True):
            if isinstance(first, InvalidRequestError):
                found[text] = str(first)
            elif isinstance(ids, InvalidRequestError):
                found[text] = str(ids)
            elif len(ids) == 0:
                found[text] = "the text is empty"
            else:
                found[text] = tuple(windows_of(ids, int(first[0]), most))
        return found

    def count(self, requests: Sequence[Request], window: int = 0) -> tuple[int, int]:
        """The number of requests that are sent, and of the tokens in their prompts;
        requests with errors are not sent. ``window``: tokens of the server's window, 0
        if unknown."""
        texts = [one for one in requests if isinstance(one, Generate)]
        ids = self._encoder.prompts([with_tools(text) for text in texts])
        sizes = [len(one) for one in ids if not isinstance(one, InvalidRequestError)]
        if window:
            sizes = [min(size, window) for size in sizes]
        for spans in self.scored(requests, window).values():
            if not isinstance(spans, str):
                sizes += [len(span.tokens) for span in spans]
        return len(sizes), sum(sizes)

    def unfit(
        self, requests: Iterable[Request], window: int
    ) -> Mapping[Generate, FittedPrompt | str]:
        """Generation requests that do not fit unchanged, or their errors.

        Prompts that only the server can encode, such as images, are excluded.
        ``window``: tokens of the server's window."""
        texts = [
            one
            for one in requests
            if isinstance(one, Generate) and not IMAGE_OPTIONS & {*dict(one.options)}
        ]
        found: dict[Generate, FittedPrompt | str] = {}
        prompts = self._encoder.prompts([text.prompt for text in texts])
        for request, ids in zip(texts, prompts, strict=True):
            if isinstance(ids, InvalidRequestError):
                continue
            try:
                room = fit_prompt(request, len(ids), window)
            except InvalidRequestError as error:
                found[request] = str(error)
                continue
            if room != (len(ids), request.max_tokens):
                n = room.n_prompt
                kept = [] if n >= len(ids) else ids[len(ids) - n :].tolist()
                found[request] = FittedPrompt(room.max_tokens, len(ids), kept)
        return found

    def plain(self, text: str) -> list[int]:
        """The ids of a string without special tokens."""
        ids: list[int] = self._encoder.encode([text], specials=False)[text].tolist()
        return ids

    def prompt(self, text: str) -> list[int]:
        """The ids of a prompt; those without special tokens if it is invalid."""
        (ids,) = self._encoder.prompts([text])
        if isinstance(ids, InvalidRequestError):
            return self.plain(text)
        found: list[int] = ids.tolist()
        return found
