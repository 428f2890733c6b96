"""A model behind an OpenAI-compatible API."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_evals.core.request import (
    RATING,
    RESPONSE_FORMAT,
    TOOLS,
    TOP_LOGPROBS,
    UNSENT,
    Finish,
    Generate,
    Request,
    Response,
    is_embedding,
)
from pytest_evals.errors import ModelError, SpendCapError
from pytest_evals.models.http.errors import REFUSED, RequestFailedError, shortened
from pytest_evals.models.http.event_loop import BackgroundModel
from pytest_evals.models.http.retries import Backoff, RetryingClient
from pytest_evals.models.http.spend_cap import SpendCap
from pytest_evals.models.http.usage import METER, RequestMeter, Usage
from pytest_evals.models.openai.client import OpenAIClient
from pytest_evals.models.openai.context_window import PromptTruncation
from pytest_evals.models.openai.request_bodies import (
    read_embedding,
    read_reply,
    request_body,
)
from pytest_evals.models.openai.scoring import ServerScorer
from pytest_evals.models.openai.settings import NO_CHAT, OpenAISettings
from pytest_evals.models.prefix_order import prefix_order, prompt_text
from pytest_evals.models.tokens.tool_calls import looks_like_calls

if TYPE_CHECKING:
    from pytest_evals.models.openai.tokenizer import FittedPrompt, ServerTokenizer

Answer = tuple[int, Response]
_INVALID = ("400", "422")
"""HTTP statuses of a request with a parameter that the server does not accept."""


_VERSION = re.compile(r"[-@:_]\d{3,}[\d-]*")
_STREAM = "stream=true measures it"


class OpenAIModel(BackgroundModel):
    """A server; requests run concurrently in a background thread."""

    def __init__(
        self,
        name: str,
        settings: OpenAISettings,
        key: str = "",
        backoff: Backoff | None = None,
        probed: OpenAIModel | None = None,
    ) -> None:
        """Create a client. ``probed``: a closed model of the same spec that has probed
        the server. Its requests count as this one's."""
        super().__init__()
        self.name = name
        self._settings = settings
        if probed is None:
            prices = settings.price_in, settings.price_out
            why = "the server does not stream" if settings.stream else _STREAM
            self._usage = Usage(*prices, settings.extra_body, f"unknown: {why}")
        else:
            self._usage = probed._usage
        cap = SpendCap(
            name,
            settings.target,
            settings.max_requests,
            settings.max_cost,
            has_costs=bool(settings.price_in or settings.price_out),
        )
        self._transport, self._client, lister = self._background.run(
            _made(settings, key, self._usage, backoff or Backoff(), cap)
        )
        encoding: ServerTokenizer | None = None
        if settings.tokenizer:
            from pytest_evals.models.openai.tokenizer import ServerTokenizer

            encoding = ServerTokenizer(settings.tokenizer, settings.template_args)
        self._scorer = ServerScorer(self._client, settings, encoding)
        if probed is not None:
            self._scorer.adopt(probed._scorer)
        self._rejected: frozenset[str] = frozenset()
        """Optional parameters that the server rejects."""
        self._n_shared = 1
        self._n_too_long, self._n_call_texts = 0, 0
        self._fitting = PromptTruncation(
            self._background, lister, settings, self._scorer
        )
        self.info: dict[str, Any] = {
            "model": name,
            "model_name": settings.target,
            "base_url": settings.url,
            "api": settings.api or "by prompt",
            "usage": self._usage.shown,
        }

    def answer(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answer all requests, in the order of the replies; ``ModelError`` if the
        server cannot be reached, refuses every request, or cannot score texts and has
        to, before the batch is sent."""
        if any(not isinstance(request, Generate) for request in requests):
            self.be_able_to_score()
        self._fitting.prepare([one for one in requests if not is_embedding(one)])
        if self._fitting.window:
            self.info["max_length"] = self._fitting.window
        order = prefix_order([prompt_text(request) for request in requests])
        # Choices that share a request wait for it together. The client limits the
        # requests in flight.
        candidates = self._scorer.candidates
        self._n_shared = 1 if candidates is None else candidates.group_size
        width = self._settings.concurrency * self._n_shared
        yield from self._answers(requests, order, width)

    def be_able_to_score(self) -> None:
        """Check once that the server returns log-probabilities of prompts:
        ``ScoringUnsupportedError`` if it gives none, ``ModelError`` if it does not
        answer or the chat API is set."""
        if self._settings.api == "chat":
            raise ModelError(NO_CHAT)
        self._background.run(self._scorer.probe())
        self.info["loglikelihoods"] = self._scorer.description

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the results so far."""
        notes = []
        lowest = self._client.concurrency.lowest
        if lowest < self._settings.concurrency:
            notes.append(
                f"the server was overloaded: at times only {lowest} of "
                f"{self._settings.concurrency} requests were sent at once"
            )
        if RESPONSE_FORMAT in self._rejected:
            notes.append(
                "the server rejects response_format, so judges were asked without it; "
                "set structured: false for them"
            )
        if self._settings.thinks:
            notes.append(
                f"{self._settings.target} takes no temperature: its answers are "
                "sampled, even if a task sets greedy decoding"
            )
        if TOP_LOGPROBS in self._rejected:
            notes.append(
                "the server does not accept requests for top log-probabilities"
            )
        if self._n_too_long:
            notes.append(
                f"answers with more tokens than their limit: {self._n_too_long} (the "
                "server ignores max_gen_toks)"
            )
        if self._n_call_texts:
            notes.append(
                f"{self._n_call_texts} answers resemble tool calls and stay text; the "
                "server may have no parser for this model (vLLM: "
                "--enable-auto-tool-choice --tool-call-parser)"
            )
        names = [*self._usage.shown.get("replied_as", {})]
        if len(names) > 1 or any(not _is_name(self._settings.target, n) for n in names):
            shown = " and ".join(map(shortened, sorted(names)))
            notes.append(f"the model in the server's replies is {shown}")
        return tuple(f"{self._settings.target}: {note}" for note in notes)

    def close(self) -> None:
        """Cancel running requests and close the connections."""
        self._background.close(self._transport.close)

    async def _one(self, position: int, request: Request) -> Answer:
        METER.set(meter := RequestMeter())
        try:
            began = time.perf_counter()
            if is_embedding(request):
                body = {"input": prompt_text(request), "encoding_format": "float"}
                response = await self._client.ask("embeddings", body, read_embedding)
            elif isinstance(request, Generate):
                response = await self._text_with_optional(request)
            else:
                response = await self._scorer.score(request)
        except RequestFailedError as fault:
            finish: Finish = "refused" if fault.kind == REFUSED else ""
            return position, Response(error=fault.message, finish=finish)
        except SpendCapError as error:
            return position, Response(error=str(error), finish=UNSENT)
        return position, replace(
            response,
            elapsed_s=self._share(began),
            latency_s=meter.latency_s,
            cost=meter.cost,
        )

    async def _text_with_optional(self, request: Generate) -> Response:
        """The completion; without optional parameters if the server rejects them."""
        fit = self._fitting.take(request)
        bare, names = _without_optional(request)
        if names & self._rejected:
            request, names = bare, frozenset()
        try:
            return await self._text(request, fit)
        except RequestFailedError as fault:
            if not names or fault.kind not in _INVALID:
                raise
        response = await self._text(bare, fit)
        self._rejected |= names
        return response

    async def _text(self, request: Generate, fit: FittedPrompt | None) -> Response:
        settings = self._settings
        path, body = request_body(request, settings, fit)
        most = request.max_tokens if fit is None else fit.max_tokens
        if settings.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        response = await self._client.ask(
            path, body, lambda reply: read_reply(reply, request, settings, path)
        )
        self._n_too_long += response.n_tokens > most
        if TOOLS in dict(request.options) and not response.calls:
            self._n_call_texts += looks_like_calls(response.text)
        if fit is None or not fit.ids:
            return response
        n_cut = fit.n_prompt - len(fit.ids)
        return replace(response, n_prompt_tokens=fit.n_prompt, n_truncated=n_cut)

    def _share(self, began: float) -> float:
        """Elapsed seconds, divided by the number of concurrent requests."""
        n = self._client.concurrency.limit * self._n_shared
        return (time.perf_counter() - began) / n


def _without_optional(request: Generate) -> tuple[Generate, frozenset[str]]:
    """The request without parameters that it can do without, and their names."""
    schema = f'"name": "{RATING}"'
    names = frozenset(
        name
        for name, value in request.options
        if name == TOP_LOGPROBS or (name == RESPONSE_FORMAT and schema in str(value))
    )
    if not names:
        return request, names
    kept = tuple(one for one in request.options if one[0] not in names)
    return replace(request, options=kept), names


def _is_name(requested: str, replied: str) -> bool:
    """Whether a reply's model is the requested one; servers leave out the owner, and
    add the version to an alias."""
    names = [name.rpartition("/")[2].casefold() for name in (requested, replied)]
    rest = names[1].removeprefix(names[0].removesuffix("-latest"))
    return names[0] == names[1] or bool(_VERSION.fullmatch(rest))


async def _made(
    settings: OpenAISettings, key: str, usage: Usage, backoff: Backoff, cap: SpendCap
) -> tuple[OpenAIClient, RetryingClient, RetryingClient]:
    """Client and retry layer, created in their event loop; a second retry layer is for
    the model list, whose replies do not count."""
    endpoint = OpenAIClient(settings, key)
    client = RetryingClient(endpoint, settings, usage, backoff, cap)
    return endpoint, client, RetryingClient(endpoint, settings, Usage(0, 0), backoff)
