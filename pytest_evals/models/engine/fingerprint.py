"""Fingerprint of a model whose weights are on this machine: everything that affects its
outputs, read from its files.

Imports no engine and loads no weights, so that a fully cached run needs neither.
Excludes settings that only depend on the machine, such as the batch size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pytest_evals.models.checkpoint import HashFile, provenance
from pytest_evals.models.engine.code_hash import code_hash
from pytest_evals.models.tokens.settings import TokenizerSettings

LIBRARIES = ("tokenizers", "torch", "transformers")
_FILES = {"target", "revision", "tokenizer"}
"""Settings that are part of the fingerprint as the content of files."""


def engine_fingerprint(
    kind: str, settings: TokenizerSettings, hash_file: HashFile
) -> dict[str, Any] | None:
    """Files, tokenization, library versions and code of a model of a kind, as JSON
    values; ``None`` if its files are unknown."""
    model = provenance(settings.target, settings.revision, hash_file)
    tokenizer: Mapping[str, Any] | None = {}
    if settings.tokenizer:
        tokenizer = provenance(settings.tokenizer, "", hash_file)
    if model is None or tokenizer is None:
        return None
    names = [one.name for one in fields(TokenizerSettings) if one.name not in _FILES]
    return {
        "kind": kind,
        "model": model,
        "tokenizer": tokenizer,
        **values_of(settings, names),
        "libraries": {name: library_version(name) for name in LIBRARIES},
        "engine": code_hash(f"pytest_evals.models.{kind}.model"),
    }


def values_of(settings: Any, names: Iterable[str]) -> dict[str, Any]:
    """Settings as JSON values."""
    found = {name: getattr(settings, name) for name in names}
    return {n: dict(v) if isinstance(v, Mapping) else v for n, v in found.items()}


@cache
def library_version(name: str) -> str:
    """Version of an installed distribution; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
