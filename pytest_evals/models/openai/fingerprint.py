"""All that can change the answers of a server, as far as the spec says it.

What a server has behind a name may change without a sign: ``revision`` is for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pytest_evals.models.openai.settings import read_settings
from pytest_evals.models.spec import ModelSpec

__all__ = ["openai_fingerprint"]

_WITHOUT_EFFECT = frozenset(
    {
        "api_key_env",
        "base_url",
        "concurrency",
        "max_retries",
        "price_in",
        "price_out",
        "reasoning",
        "timeout",
    }
)
"""Settings that are in the fingerprint in another form, or change no answer."""


def openai_fingerprint(
    spec: ModelSpec, hash_file: Callable[[Path], str]
) -> Mapping[str, Any]:
    """What a spec stands for; without keys and passwords.

    Args:
        spec: The model.
        hash_file: Not needed: no file is read.

    Raises:
        OptionError: The spec has a mistake.
    """
    settings = read_settings(spec)
    others = {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if field.name not in _WITHOUT_EFFECT
    }
    return {
        "kind": "openai",
        "url": settings.url,
        **others,
        "thinks": settings.thinks,
    }
