"""Truncation of prompts that exceed the served model's context window, as for ``hf:``
models.

Requires the model's tokenizer; without it requests are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_evals.core.request import Generate, Request
from pytest_evals.errors import ModelError
from pytest_evals.models.http.errors import RequestFailedError
from pytest_evals.models.http.event_loop import BackgroundLoop
from pytest_evals.models.http.retries import RetryingClient
from pytest_evals.models.openai.capability_probe import check_prompts
from pytest_evals.models.openai.context_window import window_of
from pytest_evals.models.openai.scoring import ServerScorer
from pytest_evals.models.openai.settings import OpenAISettings

if TYPE_CHECKING:
    from pytest_evals.models.openai.tokenizer import FittedPrompt

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
        unknown.

        Raises:
            RequestFailedError: It cannot be made to fit.
        """
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
        return _BY_SERVER in self.settings.extra_body or _BY_SERVER in dict(given)
