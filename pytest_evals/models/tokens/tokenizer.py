"""Tokenizer of a Hugging Face model without its weights."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pytest_evals.core.model import TokenStrings
from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Prompt,
    Request,
    with_tools,
)
from pytest_evals.errors import DocumentError
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)

SHOWN = 4
"""Number of first tokens in the model's info."""
_BROKEN = "\ufffd"
"""Replacement character that decoders return for incomplete UTF-8 sequences."""


class HfTokenizer:
    """Implements :class:`~pytest_evals.core.model.RequestTokenizer`."""

    def __init__(self, encoder: RequestEncoder) -> None:
        self._encoder = encoder

    def token_strings(self, request: Request) -> TokenStrings:
        """The tokens of a request, identical to the model's input."""
        if isinstance(request, Loglikelihood):
            (pair,) = self._encoder.pairs([request])
            if isinstance(pair, InvalidRequestError):
                raise pair
            return self._cut(pair.context, pair.continuation)
        if isinstance(request, Generate):
            (ids,) = self._encoder.prompts([with_tools(request)])
            return self._cut(_usable(ids), None)
        (ids,) = self._encoder.texts([request.text])
        first = _usable(self._encoder.prefix())
        return self._cut(first, _usable(ids))

    def render(self, prompt: Prompt) -> str:
        """The rendered prompt, identical to the model's input.

        Raises:
            DocumentError: There is no template, or it refuses the chat.
        """
        return self._encoder.render(prompt)

    def _cut(self, context: Ids, continuation: Ids | None) -> TokenStrings:
        scored = () if continuation is None else self._texts(continuation)
        n_scored = 0 if continuation is None else len(continuation)
        return TokenStrings(self._texts(context), scored, len(context), n_scored)

    def _texts(self, ids: Ids) -> tuple[str, ...]:
        """The string of each token; tokens of an incomplete character are merged with
        the following ones."""
        texts: list[str] = []
        waiting: list[int] = []
        for id_ in ids.tolist():
            waiting.append(id_)
            text = self._encoder.decode(waiting, specials=True)
            if _BROKEN not in text:
                texts.append(text)
                waiting = []
        if waiting:
            texts.append(self._encoder.decode(waiting, specials=True))
        return tuple(texts)


def first_tokens(
    encoder: RequestEncoder, requests: Iterable[Request]
) -> dict[str, list[str]]:
    """The first tokens of the first valid prompt, for a model's info."""
    tokenizer = HfTokenizer(encoder)
    for request in requests:
        with suppress(DocumentError):
            cut = tokenizer.token_strings(request)
            return {"first_tokens": [*cut.context, *cut.continuation][:SHOWN]}
    return {}


def _usable(ids: Ids | InvalidRequestError) -> Ids:
    if isinstance(ids, InvalidRequestError):
        raise ids
    return ids
