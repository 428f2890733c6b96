"""How the tokenizer of a Hugging Face model cuts requests; it needs no weights."""

from __future__ import annotations

from pytest_evals.core.cut import TokenTexts
from pytest_evals.core.request import Generate, Loglikelihood, Prompt, Request
from pytest_evals.models.hf.tokenization.encoder import Ids
from pytest_evals.models.hf.tokenization.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)

_BROKEN = "\ufffd"
"""What a decoder gives for the bytes of half a character."""


class HfTokenizer:
    """A :class:`~pytest_evals.core.cut.Cutter`."""

    def __init__(self, encoder: RequestEncoder) -> None:
        """Cut as the model of this encoder does."""
        self._encoder = encoder

    def cut(self, request: Request) -> TokenTexts:
        """The tokens of a request; the same that the model would get.

        Raises:
            DocumentError: It cannot be asked.
        """
        if isinstance(request, Loglikelihood):
            (pair,) = self._encoder.pairs([request])
            if isinstance(pair, InvalidRequestError):
                raise pair
            return self._cut(pair.context, pair.continuation)
        if isinstance(request, Generate):
            (ids,) = self._encoder.prompts([request.prompt])
            return self._cut(_usable(ids), None)
        (ids,) = self._encoder.texts([request.text])
        first = _usable(self._encoder.prefix())
        return self._cut(first, _usable(ids))

    def render(self, prompt: Prompt) -> str:
        """The text of a prompt; the same that the model would get.

        Raises:
            DocumentError: There is no template, or it refuses the chat.
        """
        return self._encoder.render(prompt)

    def _cut(self, context: Ids, continuation: Ids | None) -> TokenTexts:
        scored = () if continuation is None else self._texts(continuation)
        n_scored = 0 if continuation is None else len(continuation)
        return TokenTexts(self._texts(context), scored, len(context), n_scored)

    def _texts(self, ids: Ids) -> tuple[str, ...]:
        """The texts of ids. A token that is a part of a character has no text of its
        own and waits for the rest."""
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


def _usable(ids: Ids | InvalidRequestError) -> Ids:
    if isinstance(ids, InvalidRequestError):
        raise ids
    return ids
