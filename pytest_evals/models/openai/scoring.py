"""Log-likelihoods from a server that returns log-probabilities of prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_evals.core.request import (
    Loglikelihood,
    Request,
    Response,
    Rolling,
    shows_images,
)
from pytest_evals.models.http.errors import RequestFailedError
from pytest_evals.models.openai.capability_probe import (
    PROBE,
    Candidate,
    ProbedServer,
    gives_candidates,
    probe_format,
)
from pytest_evals.models.openai.prompt_logprobs import (
    LogprobFormat,
    PromptLogprobs,
    PromptToken,
    Sent,
    begins_with,
    response_of,
    token_at,
    total,
)
from pytest_evals.models.openai.settings import NO_IMAGE_SCORES

if TYPE_CHECKING:
    from pytest_evals.models.openai.tokenizer import ServerTokenizer, Spans
    from pytest_evals.models.tokens.spans import ScoredSpan

MOST = 128  # Most token ids of a request (vLLM 0.32, ``MAX_LOGPROB_TOKEN_IDS``)
_PATH = "completions"
_NO_SUM = "the tokens that the server gives do not make up the text"


@dataclass(slots=True)
class _Choices:
    """Choices of a context that share a request, and the request once it is sent."""

    tokens: list[int] = field(default_factory=list)
    task: asyncio.Task[Mapping[int, Candidate]] | None = None


@dataclass(slots=True)
class CandidateScorer:
    """Scores spans of one token: one request returns the log-probabilities of all
    choices of a context (``logprob_token_ids`` of vLLM's completions). A server that
    scores prompts computes each of them from the start; such a request generates a
    token instead, and reads the server's prefix cache."""

    server: ProbedServer
    choices: dict[tuple[bytes, int], _Choices] = field(default_factory=dict)
    """Context and token → the request with it, for the spans of a batch."""

    @property
    def group_size(self) -> int:
        """The largest number of choices that share a request, at least 1."""
        return max((len(one.tokens) for one in self.choices.values()), default=1)

    def prepare(self, spans: Iterable[ScoredSpan]) -> None:
        """Group the spans of a batch by their contexts."""
        self.choices = {}
        latest: dict[bytes, _Choices] = {}
        for span in spans:
            context, token = key = _split(span)
            if key in self.choices:
                continue
            if context not in latest or len(latest[context].tokens) == MOST:
                latest[context] = _Choices()
            latest[context].tokens.append(token)
            self.choices[key] = latest[context]

    async def score(self, span: ScoredSpan) -> Response:
        """The response for a span of one token."""
        context, token = _split(span)
        choices = self.choices[context, token]
        if choices.task is None:
            ids = span.tokens[:-1].tolist()
            request = self.server.ask_candidates(ids, choices.tokens)
            choices.task = asyncio.ensure_future(request)
        found = (await asyncio.shield(choices.task))[token]
        return Response(
            logprob=found.logprob,
            greedy=found.greedy,
            n_prompt_tokens=len(span.tokens) - 1,
            n_tokens=1,
        )


def _split(span: ScoredSpan) -> tuple[bytes, int]:
    return span.tokens[:-1].tobytes(), int(span.tokens[-1])


@dataclass(slots=True)
class ServerScorer(ProbedServer):
    """Scores requests on a server; belongs to its event loop."""

    encoding: ServerTokenizer | None = None
    """Makes token ids of texts; ``None`` to send texts."""
    form: LogprobFormat | None = None
    """The server's log-probability format, once determined."""
    candidates: CandidateScorer | None = None
    """Scores choices of one token; ``None`` if the server cannot."""
    contexts: dict[str, asyncio.Task[PromptLogprobs]] = field(default_factory=dict)
    """Contexts whose tokens were requested separately."""
    encoded: dict[Request, Spans | str] = field(default_factory=dict)
    """Requests of the current batch as token ids."""

    def adopt(self, probed: ServerScorer) -> None:
        """Take over what another scorer of the same server has found out."""
        self.form = probed.form
        if probed.candidates is not None:
            self.candidates = CandidateScorer(self)

    @property
    def description(self) -> str:
        """How requests are scored, for reports; empty before the probe."""
        if self.form is None:
            return ""
        return self.form.name + " + logprob_token_ids" * (self.candidates is not None)

    async def probe(self) -> None:
        """Determine once the format in which the server returns log-probabilities."""
        if self.form is None:
            self.form = await probe_format(self, self.encoding)
            if self.encoding is not None and not self.settings.is_openai:
                ids = self.encoding.plain(PROBE)
                if await gives_candidates(self, ids, self.form):
                    self.candidates = CandidateScorer(self)

    def prepare(self, requests: Sequence[Request], window: int) -> None:
        """Tokenize all requests that will be scored, if ids are sent. ``window``:
        tokens of the server's window, 0 if unknown."""
        if self.encoding is not None:
            self.encoded = dict(self.encoding.scored(requests, window))
        if self.candidates is not None:
            self.candidates.prepare(
                span
                for request, lines in self.encoded.items()
                if (span := _single(request, lines)) is not None
            )

    async def score(self, request: Loglikelihood | Rolling) -> Response:
        """The response to a request."""
        if shows_images(request):
            raise RequestFailedError(NO_IMAGE_SCORES)
        if self.encoding is not None:
            return await self._by_ids(request)
        if isinstance(request, Rolling):
            return await self._whole(request.text)
        if not isinstance(request.context, str):
            raise RequestFailedError(
                "the context is a chat, and a server cannot score the continuation of "
                "a chat"
            )
        # Trailing white space of the context is moved to the continuation.
        bare = request.context.rstrip()
        continuation = request.context[len(bare) :] + request.continuation
        if not continuation:
            raise RequestFailedError("the continuation is empty")
        context = bare or self.settings.prefix
        reading = await self._scored(context + continuation)
        first = token_at(reading, context + continuation, len(context))
        if first is None:
            first = await self._after(context, continuation, reading)
        return self._response(reading.tokens[first:], n_context=first)

    async def _by_ids(self, request: Loglikelihood | Rolling) -> Response:
        """Score token ids that were encoded on the client."""
        lines = self.encoded[request]
        if isinstance(lines, str):
            raise RequestFailedError(lines)
        single = _single(request, lines)
        if self.candidates is not None and single is not None:
            return _with_cut(await self.candidates.score(single), single)
        scored = []
        for line in lines:
            ids, n = line.tokens.tolist(), len(line.tokens) - line.n_scored
            tokens = (await self._scored(ids)).tokens[n:]
            scored.append(self._response(tokens, n_context=n))
        if isinstance(request, Rolling):
            return Response(
                logprob=total(one.logprob or 0.0 for one in scored),
                n_tokens=sum(one.n_tokens for one in scored),
            )
        return _with_cut(scored[0], lines[0])

    async def _whole(self, text: str) -> Response:
        """Score all tokens of a text, after the prefix or special tokens."""
        if not text:
            raise RequestFailedError("the text is empty")
        prefix = self.settings.prefix
        reading = await self._scored(prefix + text)
        first = token_at(reading, prefix + text, len(prefix))
        if first is None:
            raise self.client.named(RequestFailedError(_NO_SUM), _PATH)
        scored = self._response(reading.tokens[first:], n_context=0)
        return Response(logprob=scored.logprob, n_tokens=scored.n_tokens)

    async def _after(
        self, context: str, continuation: str, both: PromptLogprobs
    ) -> int:
        """Index of a continuation's first token, by the tokens of its context."""
        if not context:
            raise self.client.named(RequestFailedError(_NO_SUM), _PATH)
        alone = await self._alone(context)
        n = len(alone.tokens)
        if n >= len(both.tokens):
            raise RequestFailedError(
                f"the continuation {continuation!r} adds no tokens: the "
                "tokenizer merges it into the context"
            )
        if not begins_with(both, alone):
            raise RequestFailedError(
                f"the continuation {continuation!r} begins within a token, which the "
                "tokenizer makes of it and of the end of the context; a server that is "
                "sent texts cannot be made to read them apart: give its tokenizer by "
                "tokenizer="
            )
        return n

    def _response(self, tokens: Sequence[PromptToken], n_context: int) -> Response:
        try:
            return response_of(tokens, n_context)
        except RequestFailedError as fault:
            raise self.client.named(fault, _PATH) from None

    async def _alone(self, context: str) -> PromptLogprobs:
        """The tokens of a context alone; requested once."""
        task = self.contexts.get(context)
        if task is None:
            task = asyncio.ensure_future(self._scored(context))
            self.contexts[context] = task
        return await asyncio.shield(task)

    async def _scored(self, sent: Sent) -> PromptLogprobs:
        """The tokens of a prompt in the server's format."""
        assert self.form is not None, "probe() comes first"
        return await self.read(sent, self.form, None)


def _single(request: Request, lines: Spans | str) -> ScoredSpan | None:
    """The span of a request that scores one token; ``None`` for others."""
    if isinstance(lines, str) or not isinstance(request, Loglikelihood):
        return None
    return lines[0] if lines[0].n_scored == 1 else None


def _with_cut(response: Response, span: ScoredSpan) -> Response:
    """The response with the tokens that were truncated from its context."""
    n_cut = span.n_truncated
    n_context = response.n_prompt_tokens + n_cut
    return replace(response, n_prompt_tokens=n_context, n_truncated=n_cut)
