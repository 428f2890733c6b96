"""Requests as token ids, by a local copy of the served model's tokenizer: a server that
is sent ids reads exactly these, wherever a text would be cut in another way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pytest_evals.core.request import Loglikelihood, Request, Rolling
from pytest_evals.models.hf.loading import load_tokenizer
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.hf.text.tokens import Encoder, Ids, Unusable

__all__ = ["Encoded", "Encoding"]

_UNBOUNDED = 2**31
"""More ids than any model knows: how many this one does is for the server to say."""


class Encoded(NamedTuple):
    """What the server reads, and how many of its tokens are not scored."""

    ids: list[int]
    n_context: int


class Encoding:
    """A tokenizer, with the rules for special tokens of ``hf:`` models."""

    def __init__(self, target: str) -> None:
        """Load it from a folder, or by its name on the Hub.

        Raises:
            ModelError: It cannot be loaded.
        """
        settings = HfSettings(target=target)
        self._encoder = Encoder(load_tokenizer(settings), settings, _UNBOUNDED)

    def of(self, requests: Iterable[Request]) -> Mapping[Request, Encoded | str]:
        """Context and continuation of each log-likelihood, the prefix token and the
        text of each whole text; or why there are none."""
        pairs = [r for r in requests if isinstance(r, Loglikelihood)]
        texts = [r for r in requests if isinstance(r, Rolling)]
        found: dict[Request, Encoded | str] = {}
        for request, pair in zip(pairs, self._encoder.pairs(pairs), strict=True):
            found[request] = (
                str(pair)
                if isinstance(pair, Unusable)
                else _joined(pair.context, pair.continuation)
            )
        first = self._encoder.prefix() if texts else ""
        known = self._encoder.texts(text.text for text in texts)
        for text, ids in zip(texts, known, strict=True):
            if isinstance(first, Unusable | str) or isinstance(ids, Unusable):
                found[text] = str(first if isinstance(first, Unusable) else ids)
            elif len(ids) == 0:
                found[text] = "the text is empty"
            else:
                found[text] = _joined(first, ids)
        return found

    def text(self, text: str) -> list[int]:
        """The ids of a text alone, without special tokens."""
        ids: list[int] = self._encoder.encode([text], specials=False)[text].tolist()
        return ids


def _joined(context: Ids, continuation: Ids) -> Encoded:
    return Encoded([*context.tolist(), *continuation.tolist()], len(context))
