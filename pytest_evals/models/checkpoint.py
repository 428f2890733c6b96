"""Files of a model or tokenizer: whether two checkpoints are the same one, and whether
a name can be loaded; repositories of the Hub, and their download into the Hub's cache,
from which everything is read without network. Neither torch nor transformers is
imported."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_evals.data.hub import is_unreachable
from pytest_evals.data.network_variables import network_fault
from pytest_evals.errors import MissingExtraError, ModelError
from pytest_evals.models.folders import is_local, path_of
from pytest_evals.models.registry import KINDS
from pytest_evals.models.spec import ModelSpec

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
SEEN = 2**20  # Bytes to hash at each end of a large file
_OF_WEIGHTS = ("hf", "vllm", "encoder")
"""Kinds whose target is a model of the Hub; others need a tokenizer at most."""
_OTHERS = ("tokenizer", "peft")  # Arguments that name further repositories
_TIMEOUT_S = 30.0


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def provenance(
    target: str, revision: str, hash_file: HashFile
) -> dict[str, Any] | None:
    """Identity of a model's or tokenizer's files: content hashes of a local folder, or
    the commit on the Hub. ``None`` if unknown. ``revision``: of the Hub; empty for the
    default branch."""
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
        by_time = f"{stat.st_size} {stat.st_mtime_ns}"
        mark = hash_file(path) if by_content else by_time
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
    there = _commit_there(name, revision, kind)
    return there or _commit_here(name, revision or "main", kind)


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
    """Check that a model or tokenizer is on this machine or may be on the Hub;
    ``ModelError`` if it is not, or the Hub is unreachable."""
    why = "" if not name or is_local(name) else why_absent(name, revision)
    if why:
        raise ModelError(
            f"cannot load the model {name!r}: {why}\n"
            "  fix: check the name on the Hub and the connection, set HF_TOKEN if "
            "the model is private, or give a folder"
        )


class Repository(NamedTuple):
    """A repository of the Hub."""

    kind: Literal["model", "dataset"]
    name: str
    revision: str = ""  # A branch, a tag or a commit; empty for the default branch


class HubFiles(NamedTuple):
    """The files of a repository that are needed."""

    commit: str
    names: Sequence[str]
    size: int  # Bytes of all of them, 0 if unknown


def _places(spec: ModelSpec) -> dict[str, str]:
    """Folders and names on the Hub that opening a model reads → their revision."""
    spec = KINDS[spec.kind].answering(spec)
    places = {}
    if spec.kind in _OF_WEIGHTS:
        places[spec.target] = spec.arguments.get("revision", "")
    for key in _OTHERS:
        places.setdefault(spec.arguments.get(key, ""), "")
    return places


def model_folders(spec: ModelSpec) -> Iterator[Path]:
    """Yield the local folders that opening a model reads."""
    return (Path(path_of(name)) for name in _places(spec) if name and is_local(name))


def model_repositories(spec: ModelSpec) -> Iterator[Repository]:
    """Yield the repositories that opening a model needs; none for local folders."""
    for name, revision in _places(spec).items():
        if name and not is_local(name):
            yield Repository("model", name, revision)


def hub_files(repository: Repository) -> HubFiles:
    """Return the files of a repository that are needed, by the Hub's API;
    ``MissingExtraError`` if huggingface_hub is not installed, ``ModelError`` if the Hub
    cannot be reached, or has no such repository or revision."""
    kind, name, revision = repository
    try:
        info = _hub("HfApi")().repo_info(
            name,
            repo_type=kind,
            revision=revision or None,
            files_metadata=True,
            timeout=_TIMEOUT_S,
        )
    except Exception as error:  # noqa: BLE001 - of four libraries
        raise _fault(repository, error) from None
    sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
    needed = _of_model(sizes) if kind == "model" else [*sizes]
    return HubFiles(info.sha or "", needed, sum(sizes[one] for one in needed))


def download(repository: Repository, files: HubFiles) -> str:
    """Download the files into the Hub's cache, and return their folder; ``ModelError``
    if the Hub cannot be reached."""
    kind, name, revision = repository
    try:
        return str(
            _hub("snapshot_download")(
                name,
                repo_type=kind,
                revision=revision or None,
                allow_patterns=[*files.names],
            )
        )
    except Exception as error:  # noqa: BLE001 - of four libraries
        raise _fault(repository, error) from None


def _of_model(names: Sequence[str] | dict[str, int]) -> list[str]:
    """Return the files that loading a model reads: one format of weights, tokenizer,
    configuration, templates and code."""
    every = [*names]
    has_safetensors = any(one.endswith(".safetensors") for one in every)
    return [
        one
        for one in every
        if _ending(one) in (INNER_ENDINGS if "/" in one else ENDINGS)
        and not (has_safetensors and one.endswith((".bin", ".bin.index.json")))
    ]


def _ending(name: str) -> str:
    return "." + name.rpartition(".")[2]


def _hub(name: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        message = "a prefetched suite"
        raise MissingExtraError(message, "huggingface_hub", "data") from None
    return getattr(huggingface_hub, name)


def _fault(repository: Repository, error: Exception) -> ModelError:
    kind, name, revision = repository
    message = f"{kind} {name!r}{f' at {revision!r}' if revision else ''}"
    if is_unreachable(error):
        return ModelError(f"{message}: the Hub cannot be reached, or refuses access")
    first = str(error).strip().partition("\n")[0]
    return ModelError(f"{message}: {first or type(error).__name__}")
