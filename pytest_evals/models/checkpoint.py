"""Files of a model or tokenizer: whether two checkpoints are the same one, and whether
a name can be loaded. Neither torch nor transformers is imported."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pytest_evals.data.network_variables import network_fault
from pytest_evals.errors import ModelError
from pytest_evals.models.folders import is_local, path_of

HashFile = Callable[[Path], str]
ENDINGS = frozenset(
    {".bin", ".jinja", ".json", ".model", ".py", ".safetensors", ".txt"}
)
"""Suffixes of model and tokenizer files."""
INNER_ENDINGS = frozenset({".jinja", ".py"})
"""Suffixes in subfolders; weights there belong to other models."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
HUB_TIMEOUT_S = 10.0
HASHED_BYTES = 2**26
"""Local weights up to this size are identified by content, larger ones by name, size
and modification time: hashing takes one to three seconds per gigabyte, at each start.
The response store caches hashes and identifies all of them by content."""
SEEN = 2**20
"""Bytes to hash at each end of a large file."""


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
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
        folder = Path(path_of(target))
        files = _files(folder)
        try:
            with ThreadPoolExecutor(max_workers=4) as pool:
                hashes = list(pool.map(hash_file, files))
        except OSError:
            return None
        names = [path.relative_to(folder).as_posix() for path in files]
        return {"files": dict(zip(names, hashes, strict=True))}
    commit = commit_of(target, revision)
    return {"repository": target, "commit": commit} if commit else None


def _files(folder: Path) -> list[Path]:
    here = [p for p in folder.glob("*") if p.suffix in ENDINGS]
    below = [p for p in folder.glob("*/*") if p.suffix in INNER_ENDINGS]
    return sorted(path for path in here + below if path.is_file())


def weights_hash(target: str) -> str:
    """SHA-256 that changes when local weights change; empty for names on the Hub, which
    are identified by commit."""
    if not target or not is_local(target):
        return ""
    folder = Path(path_of(target))
    files = _files(folder)
    by_content = sum(path.stat().st_size for path in files) <= HASHED_BYTES
    total = hashlib.sha256()
    for path in files:
        stat = path.stat()
        mark = f"{stat.st_size} {stat.st_mtime_ns}"
        if by_content:
            mark = hash_file(path)
        total.update(f"{path.relative_to(folder).as_posix()} {mark}\n".encode())
    return total.hexdigest()


def quick_hash(path: Path) -> str:
    """Hash of a file's size and both ends, to compare weights on two machines; small
    files are hashed completely."""
    with path.open("rb") as stream:
        size = path.stat().st_size
        total = hashlib.sha256(b"%d\0" % size + stream.read(SEEN))
        if size > SEEN:
            stream.seek(max(SEEN, size - SEEN))
            total.update(stream.read(SEEN))
    return total.hexdigest()


def commit_of(name: str, revision: str, kind: str = "model") -> str:
    """The current commit of a name on the Hub; the local cache's if the Hub cannot be
    reached; empty if it is not there either. ``kind``: ``model`` or ``dataset``."""
    if _COMMIT.fullmatch(revision):
        return revision
    here = revision or "main"
    return _commit_there(name, revision, kind) or _commit_here(name, here, kind)


def _commit_there(name: str, revision: str, kind: str) -> str:
    try:
        from huggingface_hub import HfApi, constants
    except ImportError:
        return ""
    if constants.HF_HUB_OFFLINE:
        return ""
    try:
        info = HfApi().repo_info(
            name, repo_type=kind, revision=revision or None, timeout=HUB_TIMEOUT_S
        )
    # Loading the model reports network errors with more detail.
    except Exception:  # noqa: BLE001
        return ""
    return info.sha or ""


def _commit_here(name: str, revision: str, kind: str = "model") -> str:
    """The commit of the latest download."""
    folder = _cache_of(name, kind)
    try:
        return (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _cache_of(name: str, kind: str = "model") -> Path:
    """Cache folder of a Hub repository; a nonexistent path without huggingface_hub."""
    try:
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name
    except ImportError:
        return Path("/dev/null")
    folder = repo_folder_name(repo_id=name, repo_type=kind)
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
