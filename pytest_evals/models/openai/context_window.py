"""Context window of a served model, from the server's model list; and truncation of
prompts that exceed it, as for ``hf:`` models.

Truncation requires the model's tokenizer; without it requests are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_evals.core.request import Generate, Request
from pytest_evals.errors import ModelError
from pytest_evals.models.http.errors import RequestFailedError
from pytest_evals.models.http.event_loop import BackgroundLoop
from pytest_evals.models.http.retries import RetryingClient
from pytest_evals.models.http.usage import object_at
from pytest_evals.models.openai.capability_probe import check_prompts
from pytest_evals.models.openai.scoring import ServerScorer
from pytest_evals.models.openai.settings import OpenAISettings

if TYPE_CHECKING:
    from pytest_evals.models.openai.tokenizer import FittedPrompt

_NAMES = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "context_length",  # OpenRouter, Together
    "max_context_length",  # Mistral
    "context_window",  # Groq
    "n_ctx",  # llama.cpp
)
"""Fields for the context window, by precedence. ``n_ctx_train`` is excluded: a server
may have a smaller window than the model was trained with."""
_LEAST, _MOST = 3, 2**31
_RETRIES = 2


async def window_of(client: RetryingClient, settings: OpenAISettings) -> int:
    """The context window from the settings or the server's model list; 0 if unknown.
    Errors are ignored, since a server need not list its models; an unreachable server
    is reported by the first request that needs a reply."""
    if settings.max_length:
        return settings.max_length
    try:
        return await client.ask(
            "models", {}, lambda reply: window_in(reply, settings.target), _RETRIES
        )
    except (RequestFailedError, ModelError):
        return 0


def window_in(reply: Mapping[str, Any], model: str) -> int:
    """The context window of a model in a model list, whose ``data`` or ``models`` is a
    list of objects with an ``id``; 0 if unknown. A model that is served under another
    name too, as an adapter is, has the window of all others if theirs are equal."""
    listed = reply.get("data") or reply.get("models")
    known: dict[str, int] = {}
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and (window := next(_windows(entry), 0)):
            known[str(entry.get("id"))] = window
    if model in known:
        return known[model]
    return known.popitem()[1] if len(set(known.values())) == 1 else 0


def _windows(entry: Mapping[str, Any]) -> Iterator[int]:
    """All context windows in an entry of a model list."""
    for place in (entry, object_at(entry, "meta")):
        for name in _NAMES:
            value = place.get(name)
            if type(value) is int and _LEAST <= value < _MOST:
                yield value


_BY_SERVER = "truncate_prompt_tokens"
"""Option that makes the server truncate prompts (vLLM)."""


@dataclass(slots=True)
class PromptTruncation:
    """A server's context window, and the requests that exceed it."""

    background: BackgroundLoop  # The event loop of the server's clients
    lister: RetryingClient  # Asks the server for its models
    settings: OpenAISettings
    scorer: ServerScorer  # Has the tokenizer, and receives the ids to score
    window: int | None = None
    """Tokens of the window, 0 if unknown; ``None`` before that was found out."""
    unfit: dict[Generate, FittedPrompt | str] = field(default_factory=dict)
    """Requests for texts that do not fit as they are."""
    unable: str | None = None
    """Why no token ids can be sent as a prompt; ``None`` if not tried yet."""

    def prepare(self, requests: Sequence[Request]) -> None:
        """Determine the requests that do not fit, before a batch is sent."""
        encoding = self.scorer.encoding
        if encoding is None:
            return
        if self.window is None:
            self.window = self.background.run(window_of(self.lister, self.settings))
        self.scorer.prepare(requests, self.window)
        if not self.window or self.settings.api == "chat":
            return
        texts = [request for request in requests if not self._server_cuts(request)]
        self.unfit = dict(encoding.unfit(texts, self.window))
        fits = self.unfit.values()
        is_cut = any(not isinstance(fit, str) and fit.ids for fit in fits)
        if is_cut and self.unable is None:
            self.unable = self._why_unable()

    def take(self, request: Generate) -> FittedPrompt | None:
        """The truncated prompt of a request; ``None`` if it fits or the window is
        unknown. Raises ``RequestFailedError`` if it cannot be made to fit."""
        fit = self.unfit.get(request)
        if isinstance(fit, str):
            raise RequestFailedError(fit)
        if fit is not None and fit.ids and self.unable:
            raise RequestFailedError(
                f"the prompt has {fit.n_prompt} tokens, the model's window of "
                f"{self.window} has room for {len(fit.ids)} of them, and it cannot be "
                f"cut: {self.unable}"
            )
        return fit

    def _why_unable(self) -> str:
        """Why the server does not accept token ids of this tokenizer."""
        if self.scorer.form is not None:  # it was tried when texts were scored
            return ""
        assert self.scorer.encoding is not None
        try:
            self.background.run(check_prompts(self.scorer, self.scorer.encoding))
        except RequestFailedError as fault:
            return fault.message
        except ModelError as error:
            return str(error)
        return ""

    def _server_cuts(self, request: Request) -> bool:
        given = request.options if isinstance(request, Generate) else ()
        return _BY_SERVER in {**self.settings.extra_body, **dict(given)}
