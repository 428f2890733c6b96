"""The identity of a request: hashes of everything that can change its response.

A key is the same in every process, on every machine and with every version of Python:
it is computed from canonical JSON. A new field of requests becomes part of the key
automatically; ``conversation`` only if it is set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Any, NamedTuple, get_args

from pytest_evals.core.request import (
    IMAGE_OPTIONS,
    PLACED_IMAGES,
    Generate,
    Options,
    Prompt,
    Request,
)
from pytest_evals.masking.names import is_secret_name
from pytest_evals.masking.registry import has_secrets
from pytest_evals.masking.values import identity

PROMPT_BYTES = 16


class RequestKey(NamedTuple):
    """The identity of a request, without the model."""

    prompt: bytes  # hash of the prompt, the context or the text, 16 bytes
    settings: str  # the kind of request and all its other fields, as canonical JSON

    def digest(self, model: bytes) -> bytes:
        """32 bytes for this request to the model with that fingerprint."""
        data = b"%b%b%b" % (model, self.prompt, self.settings.encode("ascii"))
        return blake2b(data, digest_size=32).digest()


def request_keys(requests: Iterable[Request]) -> Iterator[RequestKey | None]:
    """The key of each request; ``None`` for a request with an option that is not a JSON
    value, because equality is then undefined, or with a secret in a continuation or a
    stop string.

    Pass requests with the same prompt next to each other: the prompt is hashed only
    once then.
    """
    last: object = None
    prompt = b""
    for request in requests:
        kind: Any = type(request)
        first, others = _names(kind)
        if isinstance(request, Generate) and not request.conversation:
            others = others[:-1]  # the keys of earlier versions
        content = getattr(request, first)
        try:
            if content is not last and content != last:
                prompt = prompt_hash(content)
                last = content
            rest = [
                public_options(value) if name == "options" else value
                for name, value in ((name, getattr(request, name)) for name in others)
            ]
            settings = canonical([request.kind, *rest])
            # Different secrets must not share a response.
            yield None if has_secrets((settings,)) else RequestKey(prompt, settings)
        except (TypeError, ValueError, RecursionError):
            yield None


def public_options(options: Options) -> Options:
    """The options of a request without secrets, which do not change responses."""
    if all(
        (value is None or isinstance(value, int | float)) and not is_secret_name(name)
        for name, value in options
    ):
        return options
    return tuple((name, _public(name, value)) for name, value in options)


def _public(name: str, value: Any) -> Any:
    if name == PLACED_IMAGES:
        return tuple(one[:4] for one in value)  # without the names of files
    if name in IMAGE_OPTIONS:
        return tuple(
            # The content's digest; of a URL with all data, its own.
            sha256(one.encode("ascii")).hexdigest()
            if isinstance(one, str)
            else one.digest
            for one in value
        )
    return identity({name: value})[name]


def named_settings(settings: str) -> dict[str, Any]:
    """The settings of a key, by field name."""
    kind, *values = json.loads(settings)
    classes: tuple[Any, ...] = get_args(Request)
    _, names = next((_names(c) for c in classes if c.kind == kind), ("", ()))
    return {"kind": kind, **dict(zip(names, values, strict=False))}


def prompt_of(request: Request) -> Prompt:
    """The prompt, the context or the text of a request."""
    kind: Any = type(request)
    prompt: Prompt = getattr(request, _names(kind)[0])
    return prompt


def canonical(value: Any) -> str:
    """Canonical JSON in ASCII: sorted keys, no white space.

    Raises:
        TypeError: The value is not a JSON value; or a mapping has a key that is not a
            string, which JSON would convert to a string.
        ValueError: A value contains itself.
    """
    _refuse_odd_keys(value)
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _refuse_odd_keys(value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key of a mapping is {key!r}")
            _refuse_odd_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            if not isinstance(inner, str):
                _refuse_odd_keys(inner)


@lru_cache
def _names(kind: type[Any]) -> tuple[str, tuple[str, ...]]:
    """The field with the prompt, which is the first one, and all others."""
    first, *others = (field.name for field in fields(kind))
    return first, tuple(others)


def prompt_hash(prompt: Prompt) -> bytes:
    """16 bytes that are equal for equal prompts."""
    text = _ENCODER.encode(prompt).encode("ascii")
    return blake2b(text, digest_size=PROMPT_BYTES).digest()
