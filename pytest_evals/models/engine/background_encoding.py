"""Request encoding, with upcoming requests encoded in a background thread.

Announcing requests does not change their ids: requests that were not announced are
encoded when they are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Prompt,
    Request,
    Rolling,
    size_of,
    with_tools,
)
from pytest_evals.models.prefetch import Prefetch
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
    TokenPair,
)
from pytest_evals.models.tokens.words import chunks

Key = Loglikelihood | Rolling | Prompt
"""The part of a request that is encoded: only the prompt for generation requests."""
Found = dict[Key, TokenPair | Ids | InvalidRequestError]

PIECE = 2**22
"""Characters per unit of work; the thread can stop between units."""


class EncodedRequests(NamedTuple):
    """Encoded requests by position."""

    pairs: dict[int, TokenPair]
    texts: dict[int, Ids]  # (T,) ids of whole texts
    prompts: dict[int, Ids]  # (T,) token ids of the prompts
    refused: dict[int, InvalidRequestError]  # Why the others cannot be asked


class _Job(NamedTuple):
    """Encoding in progress."""

    keys: frozenset[Key]
    parts: Prefetch[Found]


class PendingRequests:
    """Requests with their announced encodings."""

    def __init__(
        self, encoder: RequestEncoder, requests: Sequence[Request], coming: _Job | None
    ) -> None:
        """``coming`` is awaited when the ids are needed."""
        self._encoder = encoder
        self._requests = requests
        self._coming = coming

    def encoded(self) -> EncodedRequests:
        """The ids of each request."""
        keys = [_key(request) for request in self._requests]
        found: Found = {}
        if self._coming is not None:
            for part in self._coming.parts:
                found.update(part)
            self._coming = None
        distinct = list(dict.fromkeys(keys))
        missing = [key for key in distinct if key not in found] if found else distinct
        found.update(_encoded(missing, self._encoder))
        encoded = EncodedRequests({}, {}, {}, {})
        for position, key in enumerate(keys):
            ids = found[key]
            if isinstance(ids, InvalidRequestError):
                encoded.refused[position] = ids
            elif isinstance(ids, TokenPair):
                encoded.pairs[position] = ids
            else:
                whole = isinstance(key, Rolling)
                (encoded.texts if whole else encoded.prompts)[position] = ids
        return encoded


class BackgroundEncoder:
    """Encodes announced requests in the background."""

    def __init__(self, encoder: RequestEncoder) -> None:
        self._encoder = encoder
        self._coming: _Job | None = None

    def expect(self, requests: Sequence[Request]) -> None:
        """Start encoding these requests; discards requests announced before and not
        taken."""
        self.close()
        keys = dict.fromkeys(map(_key, requests))
        pieces = chunks(keys, size_of, PIECE)
        parts = (_encoded(some, self._encoder) for some in pieces)
        self._coming = _Job(frozenset(keys), Prefetch(parts))

    def take(self, requests: Sequence[Request]) -> PendingRequests:
        """The requests with the background job, if the job covers any of them."""
        coming = self._coming
        if coming is not None and coming.keys.isdisjoint(map(_key, requests)):
            coming = None
        elif coming is not None:
            self._coming = None
        return PendingRequests(self._encoder, requests, coming)

    def close(self) -> None:
        """Cancel the background job and wait for its current unit of work."""
        if self._coming is not None:
            self._coming.parts.close()
            self._coming = None


def _key(request: Request) -> Key:
    return with_tools(request) if isinstance(request, Generate) else request


def _encoded(keys: Sequence[Key], encoder: RequestEncoder) -> Found:
    pairs = [key for key in keys if isinstance(key, Loglikelihood)]
    texts = [key for key in keys if isinstance(key, Rolling)]
    prompts = [key for key in keys if isinstance(key, str | tuple)]
    return {
        **dict(zip(pairs, encoder.pairs(pairs), strict=True)),
        **dict(zip(texts, encoder.texts(key.text for key in texts), strict=True)),
        **dict(zip(prompts, encoder.prompts(prompts), strict=True)),
    }
