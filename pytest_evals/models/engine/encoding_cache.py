"""Encoded requests in files: the next checkpoint with the same tokenizer reads them.

Requests are kept in chunks. A chunk ends after a prompt whose checksum has a certain
value, so that runs of different parts of a suite have most chunks in common. Its file
is named by hashes of the tokenizer and of the texts. A file contains ``int32`` numbers
after their checksum; prompts are stored without the tokens that they share with the
prompt before them. A file that is missing, damaged or does not fit is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, islice, pairwise
from zlib import crc32

import numpy as np

from pytest_evals.core.model import ByteFiles
from pytest_evals.core.request import Loglikelihood, Prompt, Rolling
from pytest_evals.masking.registry import has_secrets
from pytest_evals.models.engine.code_hash import LIBRARIES, code_hash, library_version
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
    TokenPair,
)
from pytest_evals.models.tokens.spans import common_length

Key = Loglikelihood | Rolling | Prompt
"""The part of a request that is encoded: only the prompt for generation requests."""
Encoded = TokenPair | Ids | InvalidRequestError
Encode = Callable[[Sequence[Key]], Sequence[Encoded]]

LEAST = 2**16  # Minimum characters of prompts; fewer are encoded in less than 10 ms
PROMPTS = 64  # Prompts in a chunk, on average
MOST = 2**20  # Maximum characters of a chunk, but for the prompt that exceeds it
_CODE = "pytest_evals.models.tokens.request_encoder"
_CHECKSUM = 32
_NONE: Ids = np.empty(0, np.int32)


class _Chunk:
    """Requests of a file. Those with the same prompt are next to each other."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.texts: list[str] = []
        self.is_valid = True  # Whether all prompts could be rendered
        self.n_characters = 0

    def name(self, tokenizer: str) -> str:
        lengths = ",".join(map(str, map(len, self.texts)))
        raw = "".join((lengths, ":", *self.texts)).encode("utf-8", "surrogatepass")
        return f"{tokenizer}-{sha256(raw).hexdigest()[:32]}"


class EncodingCache:
    """Encodes requests, or reads them from files."""

    def __init__(
        self, encoder: RequestEncoder, files: ByteFiles, encode: Encode
    ) -> None:
        """``encode``: the function that encodes requests that are not in a file."""
        self._encoder, self._files, self._encode = encoder, files, encode
        self._tokenizer: str | None = None
        self._is_checked = False

    def __call__(self, keys: Sequence[Key]) -> Sequence[Encoded]:
        """Return the ids of distinct requests."""
        chunks = list(self._chunks(keys))
        if sum(one.n_characters for one in chunks) < LEAST or not self._name:
            return self._encode(keys)
        names = [one.name(self._name) if one.is_valid else "" for one in chunks]
        known = [
            self._read(name, one.keys) if name else None
            for name, one in zip(names, chunks, strict=True)
        ]
        missing = [
            key
            for one, values in zip(chunks, known, strict=True)
            if values is None
            for key in one.keys
        ]
        fresh = iter(self._encode(missing))
        found: list[Encoded] = []
        for name, one, values in zip(names, chunks, known, strict=True):
            if values is None:
                values = list(islice(fresh, len(one.keys)))
                is_valid = not any(isinstance(v, InvalidRequestError) for v in values)
                if name and is_valid and not has_secrets(one.texts):
                    self._files.write(name, _packed([*map(_ids, values)]))
            found += values
        return found

    @property
    def _name(self) -> str:
        """Hash of all that determines ids, except the texts; empty for no cache."""
        if self._tokenizer is None:
            rules = self._encoder.rules()
            versions = [*map(library_version, LIBRARIES), code_hash(_CODE)]
            raw = "\0".join([*rules, *versions]).encode("utf-8", "surrogatepass")
            self._tokenizer = sha256(raw).hexdigest()[:16] if rules else ""
        return self._tokenizer

    def _chunks(self, keys: Sequence[Key]) -> Iterator[_Chunk]:
        chunk, last, is_last = _Chunk(), object(), False
        for key in keys:
            continuation = ""
            prompt: object = key
            if isinstance(key, Loglikelihood):
                prompt, continuation = key.context, key.continuation
            if prompt is not last:
                last = prompt
                if is_last or chunk.n_characters >= MOST:
                    yield chunk
                    chunk = _Chunk()
                text = self._text(key)
                chunk.is_valid &= text is not None
                text = text or ""
                checksum = crc32(text.encode("utf-8", "surrogatepass"))
                is_last = checksum % PROMPTS == 0
                chunk.texts += type(key).__name__, text
                chunk.n_characters += len(text)
            chunk.keys.append(key)
            chunk.texts.append(continuation)
        if chunk.keys:
            yield chunk

    def _text(self, key: Key) -> str | None:
        if isinstance(key, Rolling):
            return key.text
        try:
            prompt = key.context if isinstance(key, Loglikelihood) else key
            return self._encoder.render(prompt)
        except InvalidRequestError:
            return None

    def _read(self, name: str, keys: Sequence[Key]) -> list[Encoded] | None:
        data = self._files.read(name)
        limit = self._encoder.n_embeddings
        values = None if data is None else _unpacked(data, len(keys), limit)
        if values is None:
            return None
        found: list[Encoded] = [
            TokenPair(*ids) if isinstance(key, Loglikelihood) else ids[0]
            for key, ids in zip(keys, values, strict=True)
        ]
        if not self._is_checked:
            self._is_checked = True
            (fresh,) = self._encode(keys[:1])
            if not all(map(np.array_equal, _ids(found[0]), _ids(fresh))):
                self._tokenizer = ""
                return None
        return found


def _ids(value: Encoded) -> tuple[Ids, Ids]:
    """Ids of a prompt or text, and of the continuation."""
    if isinstance(value, TokenPair):
        return value.context, value.continuation
    return (_NONE if isinstance(value, InvalidRequestError) else value), _NONE


def _packed(values: Sequence[tuple[Ids, Ids]]) -> bytes:
    """The ids of a chunk: counts, prompts without what they share with the one before,
    and continuations."""
    prompts: list[Ids] = []
    owners = []
    for prompt, _ in values:
        if not prompts or prompt is not prompts[-1]:
            prompts.append(prompt)
        owners.append(len(prompts) - 1)
    shared = [0, *(common_length(one, other) for one, other in pairwise(prompts))]
    new = [one[n:] for one, n in zip(prompts, shared, strict=True)]
    ends = [continuation for _, continuation in values]
    counts = [len(prompts), *shared, *map(len, new), *owners, *map(len, ends)]
    raw = np.concatenate([np.array(counts, np.int32), *new, *ends]).tobytes()
    return sha256(raw).digest() + raw


def _unpacked(data: bytes, n: int, limit: int) -> list[tuple[Ids, Ids]] | None:
    """The ids of ``n`` requests; ``None`` if the file is damaged, or an id is not below
    the limit."""
    raw = memoryview(data)[_CHECKSUM:]
    if sha256(raw).digest() != data[:_CHECKSUM]:
        return None
    numbers = np.frombuffer(raw, np.int32)
    n_prompts = int(numbers[0])
    start = 1 + 2 * (n_prompts + n)
    if start > len(numbers):  # the same texts, but not the same requests
        return None
    shared, new, owners, ends = np.split(
        numbers[1:start], [n_prompts, 2 * n_prompts, 2 * n_prompts + n]
    )
    ids = numbers[start:]
    if len(ids) != new.sum() + ends.sum() or ids.max(initial=0) >= limit:
        return None
    places = accumulate([0, *new.tolist(), *ends.tolist()])
    parts = [ids[a:b] for a, b in pairwise(places)]
    prompts = [_NONE]
    for n_shared, part in zip(shared.tolist(), parts, strict=False):
        prompts.append(np.concatenate([prompts[-1][:n_shared], part]))
    return [
        (prompts[owner + 1], end)
        for owner, end in zip(owners.tolist(), parts[n_prompts:], strict=True)
    ]
