"""What a model is asked and what it answers.

A request holds everything that can change its answer and nothing else: equal requests
are asked once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from pytest_evals.errors import DocumentError

IMAGES = "images"
"""The option of a :class:`Generate` that holds images, as ``data:`` URLs, which are
shown behind the text of the last message."""
LEADING_IMAGES = "leading_images"
"""As :data:`IMAGES`; they are shown in front of the text of the user's last message."""
FITTING = "fitting"
"""The option of a :class:`Generate` whose ``max_tokens`` nobody has asked for: a model
whose window has less room behind the prompt writes as many as fit."""
GRAMMAR = "grammar"
"""The option of a :class:`Generate` that its answer is held to, as JSON text: a mapping
of ``type``, ``json`` or ``regex``, and ``value``, the schema or the expression. A model
that cannot do that answers with an error."""
TOP_LOGPROBS = "top_logprobs"
"""The option of a :class:`Generate` with the number of likeliest tokens whose
log-probabilities are returned for each generated token."""
TopLogprobs = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""For each generated token the one that was chosen, and the likeliest ones with their
log-probabilities (:mod:`pytest_evals.core.top_logprobs`)."""
Role = Literal["system", "user", "assistant"]
"""Who speaks in a chat."""
Finish = Literal["", "stop", "length", "refused"]
"""Why an answer ended: unknown, a stop string or end-of-text token, the limit of
tokens, or a refusal by the model or a content filter, which comes with an error."""


class Message(NamedTuple):
    """One message of a chat."""

    role: Role
    content: str


Prompt = str | tuple[Message, ...]
"""Plain text, or a chat that the model renders with its own template. When the last
message of a chat is the assistant's, the model goes on with that message instead of
opening a new one."""
Render = Callable[[Prompt], Prompt]
"""A chat to the text that a model's template makes of it; ``DocumentError`` if the
template refuses the chat."""


@dataclass(frozen=True, slots=True)
class Loglikelihood:
    """The log-probability of ``continuation`` after ``context``, and whether greedy
    decoding would give it.

    The tokens that are scored are those of ``context + continuation`` beyond the tokens
    of ``context``; white space at the end of the context counts as the start of the
    continuation (lm-eval 0.4.13, ``TemplateLM._encode_pair``).
    """

    kind: ClassVar[str] = "loglikelihood"
    context: Prompt
    continuation: str


@dataclass(frozen=True, slots=True)
class Rolling:
    """The log-probability of a whole text, in windows of the model's length."""

    kind: ClassVar[str] = "loglikelihood_rolling"
    text: str


@dataclass(frozen=True, slots=True)
class Generate:
    """A text that the model writes after ``prompt``.

    Args:
        prompt: Text or chat.
        stop: The answer ends before the first of these; they are not part of it.
        max_tokens: Most new tokens.
        temperature: 0 is greedy decoding.
        options: Further sampling options as sorted ``(name, value)`` pairs, such as
            ``("top_p", 0.95)``; and ``(IMAGES, (URL, …))``, what is shown beside the
            text.
        repeat: 0, 1, 2, … when one prompt is sampled several times; always 0 for greedy
            decoding.
    """

    kind: ClassVar[str] = "generate_until"
    prompt: Prompt
    stop: tuple[str, ...] = ()
    max_tokens: int = 256
    temperature: float = 0.0
    options: tuple[tuple[str, Any], ...] = ()
    repeat: int = 0


Request = Loglikelihood | Rolling | Generate


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came back for one request, or why nothing did.

    Args:
        text: The generated text, cut before its stop string.
        logprob: Log-probability in nats.
        greedy: Whether greedy decoding would have given the continuation.
        n_prompt_tokens: Tokens of the context or the prompt.
        n_tokens: Tokens that were scored or generated.
        n_truncated: Tokens of the context that did not fit into the model and were cut
            off.
        finish: Why a generated text ended.
        elapsed_s: Seconds that the answer took, its share of the batch.
        latency_s: Seconds from sending the request until its answer was complete; 0 if
            unknown, as for models that answer in batches.
        cost: Price of the answer, ``None`` if unknown.
        error: Why there is no answer; then only ``finish`` may say more.
        top_logprobs: Of each generated token, if the request has that option and the
            model returns them.
    """

    text: str = ""
    logprob: float | None = None
    greedy: bool | None = None
    n_prompt_tokens: int = 0
    n_tokens: int = 0
    n_truncated: int = 0
    finish: Finish = ""
    elapsed_s: float = 0.0
    latency_s: float = 0.0
    cost: float | None = None
    error: str = ""
    top_logprobs: TopLogprobs = ()

    def raise_for_error(self) -> Response:
        """Return this response, or raise its error.

        Raises:
            DocumentError: There is no answer.
        """
        if self.error:
            raise DocumentError(self.error)
        return self
