"""What identifies a request: hashes over all that can change its answer.

A key is the same in every process, on every machine and with every version of Python:
it is made of canonical JSON. A field that a request gets one day joins it by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, get_args

from pytest_evals.core.request import IMAGES, LEADING_IMAGES, Prompt, Request
from pytest_evals.masking.names import is_secret_name
from pytest_evals.masking.registry import hidden
from pytest_evals.masking.values import identity

Options = tuple[tuple[str, Any], ...]
PROMPT_BYTES = 16
_SHOWN = (IMAGES, LEADING_IMAGES)


class RequestKey(NamedTuple):
    """What identifies a request, whatever the model.

    Args:
        prompt: Hash of the prompt, the context or the text alone, 16 bytes.
        settings: The kind of request and all its other fields, as canonical JSON.
    """

    prompt: bytes
    settings: str

    def digest(self, model: bytes) -> bytes:
        """32 bytes for this request to the model with that hash."""
        data = b"%b%b%b" % (model, self.prompt, self.settings.encode("ascii"))
        return blake2b(data, digest_size=32).digest()


def request_keys(requests: Iterable[Request]) -> Iterator[RequestKey | None]:
    """The key of each request; ``None`` for one with an option that is no JSON value,
    of which nobody can say whether it is equal to another one's.

    Requests about one prompt are best given side by side: it is hashed once then.
    """
    last: object = None
    prompt = b""
    for request in requests:
        kind: Any = type(request)
        first, others = _names(kind)
        given = getattr(request, first)
        try:
            if given is not last and given != last:
                prompt = prompt_hash(given)
                last = given
            rest = [
                public_options(value) if name == "options" else value
                for name, value in ((name, getattr(request, name)) for name in others)
            ]
            yield RequestKey(prompt, hidden(canonical([request.kind, *rest])))
        except (TypeError, ValueError, RecursionError):
            yield None


def public_options(options: Options) -> Options:
    """The options of a request without secrets: no answer depends on who asks."""
    if all(
        (value is None or isinstance(value, int | float)) and not is_secret_name(name)
        for name, value in options
    ):
        return options
    return tuple(
        # Images are large, and no place for a secret.
        (name, value if name in _SHOWN else identity({name: value})[name])
        for name, value in options
    )


def named_settings(settings: str) -> dict[str, Any]:
    """The settings of a key by the names of the fields."""
    kind, *values = json.loads(settings)
    classes: tuple[Any, ...] = get_args(Request)
    _, names = next((_names(c) for c in classes if c.kind == kind), ("", ()))
    return {"kind": kind, **dict(zip(names, values, strict=False))}


def prompt_of(request: Request) -> Prompt:
    """The prompt, the context or the text of a request."""
    kind: Any = type(request)
    given: Prompt = getattr(request, _names(kind)[0])
    return given


def canonical(value: Any) -> str:
    """JSON in ASCII that is the same for equal values: keys in order, no white space.

    Raises:
        TypeError: The value is none of JSON's; or a mapping has a key that is no text,
            which JSON would not tell from a text.
        ValueError: A value holds itself.
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
