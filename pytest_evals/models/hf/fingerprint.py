"""Fingerprint of a Hugging Face model. Neither torch nor transformers is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pytest_evals.models.checkpoint import HashFile, provenance
from pytest_evals.models.engine.code_hash import (
    engine_fingerprint,
    library_version,
    values_of,
)
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.tokens.settings import TokenizerSettings

_EXCLUDED = {"batch_size", "batch_tokens", "device", "peft"}
"""Settings that do not affect outputs, or are in the fingerprint in another form."""


def fingerprint(settings: HfSettings, hash_file: HashFile) -> Mapping[str, Any] | None:
    """JSON values that are equal for models with equal outputs. ``hash_file``: path →
    hash of the file's content.

    Returns:
        ``None`` if unknown, because a name on the Hub is neither known here nor can be
        looked up.
    """
    shared = engine_fingerprint("hf", settings, hash_file)
    adapter: Mapping[str, Any] | None = {}
    if settings.peft:
        adapter = provenance(settings.peft, "", hash_file)
    if shared is None or adapter is None:
        return None
    excluded = _EXCLUDED | {one.name for one in fields(TokenizerSettings)}
    names = [one.name for one in fields(settings) if one.name not in excluded]
    used = ["peft"] * bool(settings.peft) + ["bitsandbytes"] * settings.quantises
    versions = {name: library_version(name) for name in used}
    return {
        **shared,
        "adapter": adapter,
        **values_of(settings, names),
        "device": settings.device.partition(":")[0],
        "libraries": {**shared["libraries"], **versions},
    }
