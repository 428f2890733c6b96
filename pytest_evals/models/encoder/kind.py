"""Model kind ``encoder``: Hugging Face models that return embeddings. Importing it does
not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_evals.core.model import Model
from pytest_evals.errors import MissingExtraError
from pytest_evals.models.checkpoint import HashFile, check_available, provenance
from pytest_evals.models.encoder.settings import (
    POOLING_FILE,
    EncoderSettings,
    read_settings,
)
from pytest_evals.models.engine.code_hash import LIBRARIES, library_version
from pytest_evals.models.folders import check_folder, is_local, path_of
from pytest_evals.models.registry import ModelKind, TaskRequirements
from pytest_evals.models.spec import ModelSpec


def _check(spec: ModelSpec) -> None:
    check_folder(read_settings(spec).target)


def _check_ready(spec: ModelSpec) -> None:
    settings = _with_libraries(spec)
    check_available(settings.target, settings.revision)


def _with_libraries(spec: ModelSpec) -> EncoderSettings:
    settings = read_settings(spec)
    for library in ("torch", "transformers"):
        if find_spec(library) is None:
            raise MissingExtraError("the encoder", library, "hf")
    return settings


def _open(spec: ModelSpec) -> Model:
    settings = _with_libraries(spec)
    from pytest_evals.models.encoder.model import Encoder

    return Encoder(str(spec), settings)


def _import_libraries(spec: ModelSpec) -> None:
    _with_libraries(spec)
    import pytest_evals.models.encoder.model  # noqa: F401


def _fingerprint(spec: ModelSpec, hash_file: HashFile) -> Mapping[str, Any] | None:
    """JSON values, equal for equal embeddings; ``None`` if files are unknown."""
    settings = read_settings(spec)
    model = provenance(settings.target, settings.revision, hash_file)
    if model is None:
        return None
    pooling = Path(path_of(settings.target), POOLING_FILE)
    has_file = is_local(settings.target) and pooling.is_file()
    given = asdict(settings)
    kept = ("pooling", "max_length")
    return {
        "kind": "encoder",
        "model": model,
        "pooling_file": hash_file(pooling) if has_file else "",
        **{name: given[name] for name in kept},
        "libraries": {name: library_version(name) for name in LIBRARIES},
    }


def _why_unfit(spec: ModelSpec, needs: TaskRequirements) -> str:
    return (
        "encoder: models return embeddings and no answers\n"
        "  fix: use it in semantic: {model: …}"
    )


ENCODER = ModelKind(
    name="encoder",
    example="encoder:PATH_OR_NAME",
    open=_open,
    check=_check,
    check_ready=_check_ready,
    import_libraries=_import_libraries,
    is_deterministic=True,
    why_unfit=_why_unfit,
    fingerprint=_fingerprint,
)
