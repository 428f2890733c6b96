"""Fingerprint of a served model: everything in the spec that affects its outputs.

Servers may change a model without notice; set ``revision`` to distinguish versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pytest_evals.models.hf.fingerprint import provenance
from pytest_evals.models.openai.settings import read_settings
from pytest_evals.models.spec import ModelSpec

_WITHOUT_EFFECT = frozenset(
    {
        "api_key_env",
        "base_url",
        "concurrency",
        "max_cost",
        "max_length",
        "max_requests",
        "max_retries",
        "price_in",
        "price_out",
        "reasoning",
        "stream",
        "timeout",
        "tokenizer",
    }
)
"""Settings that are part of the fingerprint in another form or do not affect
outputs."""


def openai_fingerprint(
    spec: ModelSpec, hash_file: Callable[[Path], str]
) -> Mapping[str, Any] | None:
    """Fingerprint of a spec, without keys and passwords.

    Args:
        spec: The model.
        hash_file: Path → hash of the content of a file of the tokenizer.

    Returns:
        JSON values; ``None`` if the tokenizer's files are unknown.

    Raises:
        OptionError: The spec has a mistake.
    """
    settings = read_settings(spec)
    others = {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if field.name not in _WITHOUT_EFFECT
    }
    tokenizer: Mapping[str, Any] | None = {}
    if settings.tokenizer:
        tokenizer = provenance(settings.tokenizer, "", hash_file)
        if tokenizer is None:
            return None
    templated = tokenizer and settings.template_args
    return {
        "kind": "openai",
        "url": settings.url,
        **others,
        **({"tokenizer": tokenizer} if tokenizer else {}),
        # Left out where they are not given: responses of earlier versions stay usable.
        **({"template_args": settings.template_args} if templated else {}),
        **({"max_length": settings.max_length} if settings.max_length else {}),
        "thinks": settings.thinks,
    }
