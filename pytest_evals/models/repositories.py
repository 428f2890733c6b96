"""Repositories of the Hub that models and tasks need: their files with sizes, and their
download into the Hub's cache, from which everything is read without network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_evals.data.hub import is_unreachable
from pytest_evals.errors import MissingExtraError, ModelError
from pytest_evals.models.checkpoint import ENDINGS, INNER_ENDINGS
from pytest_evals.models.folders import is_local, path_of
from pytest_evals.models.registry import KINDS
from pytest_evals.models.spec import ModelSpec

_OF_WEIGHTS = ("hf", "vllm", "encoder")
"""Kinds whose target is a model of the Hub; others need a tokenizer at most."""
_OTHERS = ("tokenizer", "peft")
"""Arguments that name further repositories."""
_TIMEOUT_S = 30.0


class Repository(NamedTuple):
    """A repository of the Hub."""

    kind: Literal["model", "dataset"]
    name: str
    revision: str = ""
    """A branch, a tag or a commit; empty for the default branch."""


class HubFiles(NamedTuple):
    """The files of a repository that are needed."""

    commit: str
    names: Sequence[str]
    size: int
    """Bytes of all of them, 0 if unknown."""


def model_folders(spec: ModelSpec) -> Iterator[Path]:
    """Yield the local folders that opening a model reads."""
    spec = KINDS[spec.kind].answering(spec)
    names = [spec.arguments.get(key, "") for key in _OTHERS]
    if spec.kind in _OF_WEIGHTS:
        names.insert(0, spec.target)
    for name in names:
        if name and is_local(name):
            yield Path(path_of(name))


def model_repositories(spec: ModelSpec) -> Iterator[Repository]:
    """Yield the repositories that opening a model needs; none for local folders."""
    spec = KINDS[spec.kind].answering(spec)
    names = [spec.arguments.get(key, "") for key in _OTHERS]
    if spec.kind in _OF_WEIGHTS and spec.target and not is_local(spec.target):
        yield Repository("model", spec.target, spec.arguments.get("revision", ""))
    for name in names:
        if name and name != spec.target and not is_local(name):
            yield Repository("model", name)


def hub_files(repository: Repository) -> HubFiles:
    """Return the files of a repository that are needed, by the Hub's API.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        ModelError: The Hub cannot be reached, or has no such repository or revision.
    """
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
    """Download the files into the Hub's cache, and return their folder.

    Raises:
        ModelError: The Hub cannot be reached.
    """
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
        what = "a prefetched suite"
        raise MissingExtraError(what, "huggingface_hub", "data") from None
    return getattr(huggingface_hub, name)


def _fault(repository: Repository, error: Exception) -> ModelError:
    kind, name, revision = repository
    what = f"{kind} {name!r}{f' at {revision!r}' if revision else ''}"
    if is_unreachable(error):
        return ModelError(f"{what}: the Hub cannot be reached, or refuses access")
    first = str(error).strip().partition("\n")[0]
    return ModelError(f"{what}: {first or type(error).__name__}")
