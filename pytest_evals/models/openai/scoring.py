"""Log-likelihoods from a server that gives log-probabilities of a text."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_evals.core.request import Loglikelihood, Request, Response, Rolling
from pytest_evals.errors import ModelError
from pytest_evals.models.openai.asking import Asker
from pytest_evals.models.openai.boundary import begins_with, boundary, split
from pytest_evals.models.openai.faults import Fault
from pytest_evals.models.openai.readings import FORMS, Form, Reading, Sent, Token
from pytest_evals.models.openai.settings import OpenAISettings

if TYPE_CHECKING:
    from pytest_evals.models.openai.encoding import Encoded, Encoding

__all__ = ["Scorer"]

PROBE = "The quick brown fox jumps over the lazy dog"
PROBE_RETRIES = 2
_NO_FIRST = (
    "the first token has no log-probability, since the server puts no token before a "
    "text; name one that it knows, as in prefix=<|endoftext|>"
)
_NO_SUM = "the tokens that the server gives do not make up the text"


@dataclass(slots=True)
class Scorer:
    """A server as a giver of log-likelihoods; lives in its event loop.

    Args:
        asker: Asks the server.
        settings: How it is asked.
        form: The form that the server knows, once that was found out.
        encoding: Makes token ids of texts; ``None`` to send texts.
        contexts: Contexts that had to be asked for by themselves.
        encoded: Requests as token ids, until they are asked.
    """

    asker: Asker
    settings: OpenAISettings
    encoding: Encoding | None = None
    form: Form | None = None
    contexts: dict[str, asyncio.Task[Reading]] = field(default_factory=dict)
    encoded: dict[Request, Encoded | str] = field(default_factory=dict)

    async def probe(self) -> None:
        """Find out, once, in which form the server gives log-probabilities.

        Raises:
            ModelError: In none.
        """
        if self.form is not None:
            return
        reasons = []
        for form in FORMS:
            try:
                _check(await self._read(PROBE, form, PROBE_RETRIES))
                if self.encoding is not None:
                    await self._try_ids(self.encoding, form)
            except Fault as fault:
                reasons.append(f"{form.name}: {fault.what}")
                continue
            self.form = form
            return
        told = "\n  ".join(reasons)
        raise ModelError(
            f"{self.settings.url} cannot score texts, as tasks with log-likelihoods "
            f"need (multiple_choice, loglikelihood, loglikelihood_rolling)\n  {told}\n"
            "  fix: run tasks with output_type generate_until on this server, and the "
            "others on vLLM or with hf:"
        )

    async def _try_ids(self, encoding: Encoding, form: Form) -> None:
        """Make sure that the server reads ids as its tokenizer does here.

        Raises:
            Fault: It takes no ids.
            ModelError: They mean another text to it.
        """
        reading = await self._read(encoding.text(PROBE), form, PROBE_RETRIES)
        words = "".join(token.text for token in reading.tokens[1:])
        if not words or not PROBE.endswith(words):
            raise ModelError(
                f"tokenizer={self.settings.tokenizer} is not that of the server's "
                f"{self.settings.target!r}: its ids of {PROBE!r} mean {words!r} there"
            )

    def prepare(self, requests: Sequence[Request]) -> None:
        """Make token ids of all requests that will be scored, if ids are sent."""
        if self.encoding is not None:
            self.encoded = dict(self.encoding.of(requests))

    async def score(self, request: Loglikelihood | Rolling) -> Response:
        """The response to a request.

        Raises:
            Fault: There is none.
        """
        if self.encoding is not None:
            return await self._by_ids(request)
        if isinstance(request, Rolling):
            return await self._whole(request.text)
        if not isinstance(request.context, str):
            raise Fault(
                "the context is a chat, and a server cannot score the continuation of "
                "a chat"
            )
        context, continuation = split(request.context, request.continuation)
        if not continuation:
            raise Fault("the continuation is empty")
        context = context or self.settings.prefix
        reading = await self._read(context + continuation)
        first = boundary(reading, context + continuation, len(context))
        if first is None:
            first = await self._after(context, continuation, reading)
        return _response(reading.tokens[first:], n_context=first)

    async def _by_ids(self, request: Loglikelihood | Rolling) -> Response:
        """All tokens after those of the context, as they are encoded here."""
        encoded = self.encoded.pop(request)
        if isinstance(encoded, str):
            raise Fault(encoded)
        reading = await self._read(encoded.ids)
        n = encoded.n_context
        scored = _response(reading.tokens[n:], n_context=n)
        if isinstance(request, Rolling):
            return Response(logprob=scored.logprob, n_tokens=scored.n_tokens)
        return scored

    async def _whole(self, text: str) -> Response:
        """All tokens of a text, after the prefix or what the server puts in front."""
        if not text:
            raise Fault("the text is empty")
        prefix = self.settings.prefix
        reading = await self._read(prefix + text)
        first = boundary(reading, prefix + text, len(prefix))
        if first is None:
            raise Fault(_NO_SUM)
        scored = _response(reading.tokens[first:], n_context=0)
        return Response(logprob=scored.logprob, n_tokens=scored.n_tokens)

    async def _after(self, context: str, continuation: str, both: Reading) -> int:
        """The first token of a continuation, by the tokens of its context alone."""
        if not context:
            raise Fault(_NO_SUM)
        alone = await self._alone(context)
        n = len(alone.tokens)
        if n >= len(both.tokens):
            raise Fault(
                f"the continuation {continuation!r} has no tokens of its own: the "
                "tokenizer merges it into the context"
            )
        if not begins_with(both, alone):
            raise Fault(
                f"the continuation {continuation!r} begins within a token, which the "
                "tokenizer makes of it and of the end of the context; a server that is "
                "sent texts cannot be made to read them apart: give its tokenizer by "
                "tokenizer="
            )
        return n

    async def _alone(self, context: str) -> Reading:
        """The tokens of a context by itself; asked once, whoever wants to know."""
        task = self.contexts.get(context)
        if task is None:
            task = asyncio.ensure_future(self._read(context))
            self.contexts[context] = task
        return await asyncio.shield(task)

    async def _read(
        self, sent: Sent, form: Form | None = None, retries: int | None = None
    ) -> Reading:
        form = form or self.form
        assert form is not None, "probe() comes first"
        body = {"prompt": sent, "temperature": 0, "max_tokens": 1, **form.body}
        read = form.read
        return await self.asker.ask(
            "completions", body, lambda reply: read(reply, sent), retries
        )


def _check(reading: Reading) -> None:
    if len(reading.tokens) < 2:
        raise Fault("it does not repeat the text")
    if _response(reading.tokens[1:], n_context=1).greedy is None:
        raise Fault("it does not say which tokens are the most likely ones")


def _response(tokens: Sequence[Token], n_context: int) -> Response:
    logprobs: list[float] = []
    for number, token in enumerate(tokens):
        if token.logprob is None:
            raise Fault(
                _NO_FIRST
                if n_context + number == 0
                else f"it gives no log-probability for {token.text!r}"
            )
        logprobs.append(token.logprob)
    flags = {token.greedy for token in tokens}
    return Response(
        logprob=math.fsum(logprobs),
        greedy=False if False in flags else None if None in flags else True,
        n_prompt_tokens=n_context,
        n_tokens=len(tokens),
    )
