"""Fingerprint of a Hugging Face model: everything that affects its outputs, read from
its files.

Does not import torch or transformers and loads no weights, so that a fully cached run
needs neither. Excludes settings that only depend on the machine, such as the batch
size.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_evals.data.network_variables import network_fault
from pytest_evals.errors import ModelError
from pytest_evals.models.engine.code_hash import code_hash
from pytest_evals.models.folders import is_local
from pytest_evals.models.hf.settings import HfSettings, read_settings
from pytest_evals.models.spec import ModelSpec

HashFile = Callable[[Path], str]

ENDINGS = frozenset(
    {".bin", ".jinja", ".json", ".model", ".py", ".safetensors", ".txt"}
)
"""Suffixes of model and tokenizer files."""
INNER_ENDINGS = frozenset({".jinja", ".py"})
"""Suffixes in subfolders; weights there belong to other models."""
LIBRARIES = ("tokenizers", "torch", "transformers")
_ELSEWHERE = frozenset(
    {
        "target",
        "tokenizer",
        "peft",
        "revision",
        "device",
        "batch_tokens",
        "batch_size",
    }
)
"""Settings that are excluded or part of the fingerprint in another form."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
HUB_TIMEOUT_S = 10.0


def hf_fingerprint(spec: ModelSpec, hash_file: HashFile) -> Mapping[str, Any] | None:
    """Fingerprint of a spec: equal for models with equal outputs.

    Args:
        hash_file: Path → hash of the file's content.

    Returns:
        JSON values; ``None`` if unknown, because a name on the Hub is neither
        known here nor can be looked up.

    Raises:
        OptionError: The spec has a mistake.
    """
    return fingerprint(read_settings(spec), hash_file)


def fingerprint(settings: HfSettings, hash_file: HashFile) -> Mapping[str, Any] | None:
    """Fingerprint of settings; see :func:`hf_fingerprint`."""
    model = provenance(settings.target, settings.revision, hash_file)
    tokenizer: Mapping[str, Any] | None = {}
    if settings.tokenizer:
        tokenizer = provenance(settings.tokenizer, "", hash_file)
    adapter: Mapping[str, Any] | None = {}
    if settings.peft:
        adapter = provenance(settings.peft, "", hash_file)
    if model is None or tokenizer is None or adapter is None:
        return None
    others = {
        field.name: _plain(getattr(settings, field.name))
        for field in fields(settings)
        if field.name not in _ELSEWHERE
    }
    return {
        "kind": "hf",
        "model": model,
        "tokenizer": tokenizer,
        "adapter": adapter,
        **others,
        "device": settings.device.partition(":")[0],
        "libraries": {name: _version(name) for name in _libraries(settings)},
        "engine": code_hash("pytest_evals.models.hf.model"),
    }


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def provenance(
    target: str, revision: str, hash_file: HashFile
) -> dict[str, Any] | None:
    """Identity of a model's or tokenizer's files: content hashes of a local folder, or
    the commit on the Hub. ``None`` if unknown.

    Args:
        target: A folder, or a name on the Hub.
        revision: Of the Hub; empty for the default branch.
        hash_file: Path → hash of a file's content.
    """
    if is_local(target):
        folder = Path(os.path.expanduser(target))
        files = _files(folder)
        try:
            with ThreadPoolExecutor(max_workers=4) as pool:
                hashes = list(pool.map(hash_file, files))
        except OSError:
            return None
        names = [path.relative_to(folder).as_posix() for path in files]
        return {"files": dict(zip(names, hashes, strict=True))}
    commit = _commit(target, revision)
    return {"repository": target, "commit": commit} if commit else None


def _files(folder: Path) -> list[Path]:
    here = [p for p in folder.glob("*") if p.suffix in ENDINGS]
    below = [p for p in folder.glob("*/*") if p.suffix in INNER_ENDINGS]
    return sorted(path for path in here + below if path.is_file())


def _commit(name: str, revision: str) -> str:
    """The current commit of a name on the Hub; the local cache's if the Hub cannot be
    reached."""
    if _COMMIT.fullmatch(revision):
        return revision
    return _commit_there(name, revision) or _commit_here(name, revision or "main")


def _commit_there(name: str, revision: str) -> str:
    try:
        from huggingface_hub import HfApi, constants
    except ImportError:
        return ""
    if constants.HF_HUB_OFFLINE:
        return ""
    try:
        info = HfApi().model_info(
            name, revision=revision or None, timeout=HUB_TIMEOUT_S
        )
    # Loading the model reports network errors with more detail.
    except Exception:  # noqa: BLE001
        return ""
    return info.sha or ""


def _commit_here(name: str, revision: str) -> str:
    """The commit of the latest download."""
    folder = _cache_of(name)
    try:
        return (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _cache_of(name: str) -> Path:
    """Cache folder of a Hub repository; a nonexistent path without huggingface_hub."""
    try:
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name
    except ImportError:
        return Path("/dev/null")
    folder = repo_folder_name(repo_id=name, repo_type="model")
    return Path(constants.HF_HUB_CACHE, folder)


def why_absent(name: str, revision: str) -> str:
    """Why a name on the Hub cannot be loaded: not cached locally, and missing on the
    Hub or the Hub is unreachable. Empty if it may be available."""
    folder = _cache_of(name)
    is_here = _commit_here(name, revision or "main")
    if is_here or (revision and (folder / "snapshots" / revision).is_dir()):
        return ""
    try:
        from huggingface_hub import HfApi, constants
    except ImportError:
        return ""
    if constants.HF_HUB_OFFLINE:
        return "it is not on this machine, and HF_HUB_OFFLINE is set"
    try:
        HfApi().model_info(name, revision=revision or None, timeout=HUB_TIMEOUT_S)
    except Exception as error:  # noqa: BLE001 - of whichever client the library uses
        if "timeout" in type(error).__name__.casefold():
            return ""  # a slow Hub may still give it
        kind, line = type(error).__name__, (str(error).strip().splitlines() or [""])[0]
        fault = network_fault("https:").partition("\n")[0]
        why = f"and {fault}" if fault else f"nor on the Hub ({kind}: {line})"
        return f"it is not on this machine, {why}"
    return ""


def check_available(name: str, revision: str) -> None:
    """Check that a model or tokenizer is on this machine or may be on the Hub.

    Raises:
        ModelError: It is not; or the Hub is unreachable.
    """
    why = "" if not name or is_local(name) else why_absent(name, revision)
    if why:
        raise ModelError(
            f"cannot load the model {name!r}: {why}\n"
            "  fix: check the name on the Hub and the connection, set HF_TOKEN if "
            "the model is private, or give a folder"
        )


def _libraries(settings: HfSettings) -> tuple[str, ...]:
    """Libraries that affect outputs, given the settings."""
    adapts = ("peft",) if settings.peft else ()
    quantises = ("bitsandbytes",) if settings.quantises else ()
    return (*LIBRARIES, *adapts, *quantises)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
