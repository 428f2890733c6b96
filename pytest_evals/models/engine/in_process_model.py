"""A model whose engine runs in this process: encodes requests, scores them, and
generates text.

Upcoming requests are encoded in a background thread. Announcing requests does not
change their ids: requests that were not announced are encoded when they are sent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from pytest_evals.core.model import ByteFiles
from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Prompt,
    Request,
    Response,
    Rolling,
    shows_images,
    size_of,
    with_tools,
)
from pytest_evals.models.engine.completions import ToolReplies
from pytest_evals.models.engine.device_memory import inference_thread
from pytest_evals.models.engine.encoding_cache import (
    Encode,
    Encoded,
    EncodingCache,
    Key,
)
from pytest_evals.models.engine.scorer import LoglikelihoodScorer
from pytest_evals.models.prefetch import Answer, AnswerBatches, BatchModel, Prefetch
from pytest_evals.models.tokens.encoder import Ids, chunks
from pytest_evals.models.tokens.loader import first_tokens
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
    TokenPair,
)

PIECE = 2**22  # Characters per unit of work; the thread can stop between units


class EncodedRequests(NamedTuple):
    """Encoded requests by position."""

    pairs: dict[int, TokenPair]
    texts: dict[int, Ids]  # (T,) ids of whole texts
    prompts: dict[int, Ids]  # (T,) token ids of the prompts
    refused: dict[int, InvalidRequestError]  # Why the others cannot be asked


class _Job(NamedTuple):
    keys: frozenset[Key]
    parts: Prefetch[Mapping[Key, Encoded]]


@dataclass(slots=True)
class PendingRequests:
    """Requests with their announced encodings."""

    encode: Encode
    requests: Sequence[Request]
    coming: _Job | None  # Awaited when the ids are needed

    def encoded(self) -> EncodedRequests:
        """The ids of each request."""
        keys = [_key(request) for request in self.requests]
        found: dict[Key, Encoded] = {}
        if self.coming is not None:
            for part in self.coming.parts:
                found.update(part)
            self.coming = None
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        fresh = self.encode(missing)
        if len(missing) < len(keys):  # else these are the ids of all, in their order
            found.update(zip(missing, fresh, strict=True))
            fresh = [found[key] for key in keys]
        encoded = EncodedRequests({}, {}, {}, {})
        for position, (key, ids) in enumerate(zip(keys, fresh, strict=True)):
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
        self._encode: Encode = partial(_encoded, encoder)
        self._coming: _Job | None = None

    def keep(self, files: ByteFiles) -> None:
        """Keep encoded requests in files, and read them from there."""
        self._encode = EncodingCache(self._encoder, files, self._encode)

    def expect(self, requests: Sequence[Request]) -> None:
        """Start to encode these instead of those announced before and not taken."""
        self.close()
        keys = dict.fromkeys(map(_key, requests))
        pieces = chunks(keys, size_of, PIECE)
        encode = self._encode
        parts = (dict(zip(some, encode(some), strict=True)) for some in pieces)
        self._coming = _Job(frozenset(keys), Prefetch(parts))

    def take(self, requests: Sequence[Request]) -> PendingRequests:
        """The requests with the background job, if the job covers any of them."""
        coming = self._coming
        if coming is not None and coming.keys.isdisjoint(map(_key, requests)):
            coming = None
        elif coming is not None:
            self._coming = None
        return PendingRequests(self._encode, requests, coming)

    def close(self) -> None:
        """Cancel the background job and wait for its current unit of work."""
        if self._coming is not None:
            self._coming.parts.close()
            self._coming = None


def _key(request: Request) -> Key:
    return with_tools(request) if isinstance(request, Generate) else request


def _encoded(encoder: RequestEncoder, keys: Sequence[Key]) -> Sequence[Encoded]:
    pairs = [key for key in keys if isinstance(key, Loglikelihood)]
    texts = [key.text for key in keys if isinstance(key, Rolling)]
    prompts = [key for key in keys if isinstance(key, str | tuple)]
    of_pairs = iter(encoder.pairs(pairs))
    of_texts, of_prompts = iter(encoder.texts(texts)), iter(encoder.prompts(prompts))
    return [
        next(of_pairs)
        if isinstance(key, Loglikelihood)
        else next(of_texts if isinstance(key, Rolling) else of_prompts)
        for key in keys
    ]


TEXT_ONLY = (
    "this model reads texts, and the request shows images; an openai: model of a "
    "server that takes images can be asked"
)


class InProcessModel(BatchModel):
    """A causal language model in this process."""

    is_deterministic = True
    _scorer: LoglikelihoodScorer

    def __init__(
        self, name: str, encoder: RequestEncoder, device: torch.device
    ) -> None:
        """Prepare for requests; the subclass sets ``_scorer``."""
        self.name = name
        self.works_ahead: bool = device.type != "cpu"
        """Whether inference continues in the background between two responses. On a CPU
        it would only compete with scoring."""
        self._encoder = encoder
        self._tools = ToolReplies(encoder.tokenizer)
        self._expected = BackgroundEncoder(encoder)
        self._device = device
        self._info: Mapping[str, Any] = {
            "model": name,
            "prefix_token_id": encoder.prefix_id,
            "bos_rule": encoder.bos_rule,
        }

    def answer(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answer all requests; yields responses as batches finish. Raises
        ``ModelError`` if the engine fails or cannot generate text as configured."""
        if "first_tokens" not in self._info:
            self._info = {**self._info, **first_tokens(self._encoder, requests)}
        texts = {i: one for i, one in enumerate(requests) if not shows_images(one)}
        known = self._expected.take([*texts.values()])
        batches = self._inferred(requests, [*texts], known)
        settings = partial(inference_thread, self._device)
        return self._answers(requests, batches, settings if self.works_ahead else None)

    def expect(self, requests: Sequence[Request]) -> None:
        """Encode the next requests while the model runs."""
        self._expected.expect([one for one in requests if not shows_images(one)])

    def keep_encoded(self, files: ByteFiles) -> None:
        """Read encoded requests from files, and write those of larger batches there."""
        self._expected.keep(files)

    def render(self, prompt: Prompt) -> str:
        """The prompt as a string; chats are rendered by the tokenizer's template.
        Raises ``DocumentError`` if there is no template, or it refuses the chat."""
        return self._encoder.render(prompt)

    def close(self) -> None:
        """Stop the threads; the model cannot be used afterwards."""
        self._expected.close()
        super().close()
        # A session keeps its closed models, and tokenizers are large.
        del self._encoder, self._expected
        self._tools.close()

    def _inferred(
        self, requests: Sequence[Request], places: Sequence[int], known: PendingRequests
    ) -> AnswerBatches:
        """Responses to texts, whose positions are ``places``, and then to images."""
        for batch in self._answer(known):
            yield [
                (places[i], self._tools.read(known.requests[i], one))
                for i, one in batch
            ]
        shown = {i: one for i, one in enumerate(requests) if shows_images(one)}
        if any(isinstance(one, Generate) for one in shown.values()):
            self._check_generation()
        for batch in self._answer_images(shown) if shown else ():
            yield [(i, self._tools.read(shown[i], one)) for i, one in batch]

    def _answer_images(self, requests: Mapping[int, Request]) -> AnswerBatches:
        yield [(i, Response(error=TEXT_ONLY)) for i in requests]

    def _answer(self, known: PendingRequests) -> AnswerBatches:
        texts = {i: r for i, r in enumerate(known.requests) if isinstance(r, Generate)}
        if texts:
            self._check_generation()
        asked = known.encoded()
        yield [(i, Response(error=str(why))) for i, why in asked.refused.items()]
        yield from self._scorer.answer(asked.pairs, asked.texts)
        yield from self._generate(texts, asked.prompts)

    def _check_generation(self) -> None:
        """Raise if text cannot be generated, before anything is run."""

    @abstractmethod
    def _generate(
        self, texts: Mapping[int, Generate], prompts: Mapping[int, Any]
    ) -> AnswerBatches: ...
