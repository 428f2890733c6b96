"""Datasets: from what a task file names to rows, by split.

The ``datasets`` library does the reading. Paths are looked for next to the task file
first. A dataset that several tasks share is read once in a process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from glob import iglob
from pathlib import Path
from typing import Any

from pytest_evals.data.calls import FieldError, call
from pytest_evals.data.data_files import (
    encoding_fault,
    local_files,
    named,
    row_fault,
)
from pytest_evals.data.features import features_of
from pytest_evals.data.hub import is_out_of_reach, reading_datasets
from pytest_evals.data.json_lines import read_json_lines
from pytest_evals.data.json_rows import (
    RowError,
    are_likely_rows,
    guard_json_builder,
    json_fault,
)
from pytest_evals.errors import Place, Problem, TaskFileError, UnreachableError

_FILE_BUILDERS = ("arrow", "csv", "json", "parquet", "text")
"""Builders of ``datasets`` that read files which the task file names."""
_SAVED = ("dataset_dict.json", "state.json")
"""Files by which a folder of ``save_to_disk`` is known: of all splits, of one."""
_DATA_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a task's rows come from.

    Args:
        path: A dataset of the Hub, a folder, or a builder such as ``json``.
        name: The dataset's configuration.
        arguments: Further arguments of ``datasets.load_dataset``, or of ``maker``.
        maker: A function of the user's that makes the dataset instead.
        place: Where the path stands in the task file.
        data_place: Where the arguments stand.
        base: Folder that relative paths are tried from after the task file's own.
    """

    path: str
    name: str | None = None
    arguments: Mapping[str, Any]
    maker: Callable[..., Any] | None = None
    place: Place
    data_place: Place
    base: Path


def load(source: Source, *, plain: bool = False) -> Mapping[str, Any]:
    """The splits of a dataset: name → rows.

    Args:
        source: What the task file names.
        plain: Whether rows are enough; else they are a dataset of the ``datasets``
            library, unless a function of the user's makes them.

    Raises:
        TaskFileError: The dataset cannot be read.
    """
    if source.maker is not None:
        return _made(source, source.maker)
    _check_builder(source)
    there = located(source)
    arguments = json.dumps(dict(there.arguments), sort_keys=True, default=repr)
    key = _Key(there, arguments, _stamps(there))
    rows = _read_plain(key) if plain else None
    if rows is not None:
        return rows
    try:
        of_hub = source.path not in _FILE_BUILDERS and there.path == source.path
        with reading_datasets(of_hub=of_hub):
            splits = _read(key)
    except Exception as error:
        raise _unreadable(source, there, error) from error
    if not isinstance(splits, Mapping):
        what = "dataset_kwargs: 'split' gives one split, and a task names its splits"
        fix = "leave 'split' out and name it in test_split"
        raise TaskFileError([Problem(what, source.data_place, fix)])
    return splits


def not_utf8(source: Source) -> TaskFileError:
    """The error for a dataset with text that is not UTF-8; it names the file and line
    where that is known."""
    fault = encoding_fault(located(source).arguments.get("data_files"))
    what = fault or f"the dataset {source.path!r} holds text that is not UTF-8"
    fix = "convert it, for example: iconv -f latin1 -t utf-8 old > new"
    return TaskFileError([Problem(what, source.data_place, fix)])


def _check_builder(source: Source) -> None:
    """Refuse what can only be a slip before any server is asked for it.

    Raises:
        TaskFileError: A builder without files, or nearly the name of one.
    """
    files = any(source.arguments.get(key) for key in ("data_files", "data_dir"))
    if source.path in _FILE_BUILDERS:
        if not files:
            what = f"data_files is missing: {source.path!r} reads files of yours"
            fix = "dataset_kwargs: {data_files: {test: my_file}}"
            raise TaskFileError([Problem(what, source.data_place, fix)])
        return
    if "/" in source.path:
        return
    # Without files it may be a dataset of the Hub, such as text8.
    known = _FILE_BUILDERS if files else _FILE_BUILDERS[:-1]
    cutoff = 0.6 if files else 0.8
    near = get_close_matches(source.path.lower(), known, n=1, cutoff=cutoff)
    folders = (source.place.path.parent, source.base)
    if near and not any(os.path.isdir(folder / source.path) for folder in folders):
        what = f"no dataset called {source.path!r}; did you mean {near[0]!r}?"
        fix = f"dataset_path: {near[0]}"
        raise TaskFileError([Problem(what, source.place, fix)])


def _made(source: Source, maker: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        made = call(
            lambda: maker(**source.arguments), (), "custom_dataset", source.place
        )
    except FieldError as error:
        raise TaskFileError([error.problem]) from error
    if not isinstance(made, Mapping):
        what = f"custom_dataset gave a {type(made).__name__}, not splits by name"
        raise TaskFileError([Problem(what, source.place)])
    return made


class _Key:
    """A dataset with all that can change its rows; equal keys are read once."""

    def __init__(self, source: Source, arguments: str, stamps: tuple[Any, ...]) -> None:
        self.source = source
        self._identity = (source.path, source.name, arguments, stamps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@lru_cache(maxsize=64)
def _read_plain(key: _Key) -> Mapping[str, Any] | None:
    """The rows of JSON lines that need no library; ``None`` for all else."""
    source = key.source
    if source.path != "json" or source.name or set(source.arguments) != {"data_files"}:
        return None
    files = source.arguments["data_files"]
    by_split = files if isinstance(files, Mapping) else {"train": files}
    return read_json_lines(
        {
            split: [Path(name) for name in named(value)]
            for split, value in by_split.items()
        }
    )


@lru_cache(maxsize=64)
def _read(key: _Key) -> Any:
    import datasets

    source = key.source
    _check_rows(source)
    for folder in (source.arguments.get("data_dir"), source.path):
        if folder and _is_saved(Path(folder)):
            return _by_split(datasets.load_from_disk(folder))
    arguments = dict(source.arguments)
    if isinstance(arguments.get("features"), Mapping):
        arguments["features"] = features_of(arguments["features"])
    return datasets.load_dataset(source.path, name=source.name, **arguments)


def _is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` wrote it: a dataset, or one split."""
    return any(os.path.isfile(folder / name) for name in _SAVED)


def _by_split(saved: Any) -> Any:
    """What was saved, by split; a lone split has the name that it was loaded under."""
    if isinstance(saved, Mapping):
        return saved
    return {str(saved.split or "train"): saved}


def _check_rows(source: Source) -> None:
    """Refuse rows that would end the process, or be lost without a word.

    Raises:
        TaskFileError: A file of JSON has a row that is no object, or is no JSON.
    """
    guard_json_builder()
    files = source.arguments.get("data_files") if source.path == "json" else None
    for path in local_files(files):
        if not {"encoding", "field"} & source.arguments.keys() and are_likely_rows(
            path
        ):
            continue
        fault = json_fault(path, source.arguments)
        if fault is not None:
            raise TaskFileError([Problem(fault, source.data_place)])


def located(source: Source) -> Source:
    """The source with all its local paths made absolute."""
    arguments = {k: v for k, v in source.arguments.items() if k != "trust_remote_code"}
    folders = (source.data_place.path.parent, source.base)
    if arguments.get("data_dir") is not None:
        arguments["data_dir"] = _found(
            str(arguments["data_dir"]), folders, source.data_place
        )
    elif source.path in _FILE_BUILDERS and "data_files" in arguments:
        arguments["data_files"] = _all_found(
            arguments["data_files"], folders, source.data_place
        )
    return replace(source, path=_folder_or_id(source), arguments=arguments)


def _all_found(files: Any, folders: tuple[Path, ...], place: Place) -> Any:
    if isinstance(files, Mapping):
        return {key: _all_found(value, folders, place) for key, value in files.items()}
    if isinstance(files, list):
        return [_found(str(file), folders, place) for file in files]
    return _found(str(files), folders, place)


def _found(file: str, folders: tuple[Path, ...], place: Place) -> str:
    """The absolute form of a path or glob that exists in one of the folders.

    Raises:
        TaskFileError: It exists in none of them.
    """
    if "://" in file:
        return file
    tried = list(dict.fromkeys(folder / os.path.expanduser(file) for folder in folders))
    for path in tried:
        if _exists(path):
            return str(path)
    where = " or ".join(str(Place(Path(os.path.normpath(path)))) for path in tried)
    fix = "give a path relative to the task file"
    raise TaskFileError([Problem(f"no such data file: {where}", place, fix)])


def _exists(path: Path) -> bool:
    if os.path.exists(path):
        return True
    if not any(char in str(path) for char in "*?["):
        return False
    return next(iglob(str(path), recursive=True), None) is not None


def _folder_or_id(source: Source) -> str:
    """A path that points to a folder as absolute; every other path as it is.

    A plain word is a folder only if there is data in it, so that a folder which happens
    to be called like a dataset of the Hub does not hide that.
    """
    if source.path in _FILE_BUILDERS:
        return source.path
    folders = (source.place.path.parent, source.base)
    if source.path.startswith((".", "/", "~")):
        return _found(source.path, folders, source.place)
    for folder in folders:
        path = folder / source.path
        if os.path.isdir(path) and any(_holds_data(path)):
            return str(path)
    return source.path


def _holds_data(folder: Path) -> Iterator[bool]:
    for inside in (folder, folder / "data"):
        if os.path.isdir(inside):
            yield from (file.suffix in _DATA_SUFFIXES for file in inside.iterdir())


def _stamps(source: Source) -> tuple[tuple[str, int, int], ...]:
    """Time and size of the files that the source names, so that a changed file is read
    again."""
    texts = [source.path, *named(source.arguments.get("data_files"))]
    files = (Path(text) for text in texts if text.startswith("/") or text[1:2] == ":")
    stats = [(str(file), file.stat()) for file in files if os.path.isfile(file)]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def _unreadable(source: Source, located: Source, error: Exception) -> TaskFileError:
    if isinstance(error, TaskFileError):
        return error
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    if isinstance(root, UnicodeDecodeError):
        return not_utf8(source)
    files = located.arguments.get("data_files")
    fault = row_fault(files, root)
    if fault is None and located.path == "json":
        fault = _first_fault(local_files(files), located.arguments)
    if fault is None and isinstance(root, RowError):
        folder = Path(located.arguments.get("data_dir") or located.path)
        fault = _first_fault(sorted(folder.rglob("*json*")), {})
    if fault is not None:
        return TaskFileError([Problem(fault, source.data_place)])
    if "Dataset scripts are no longer supported" in str(root):
        return _is_script(source)
    name = f" ({source.name})" if source.name else ""
    reason = (str(root).strip() or "no reason given").splitlines()[0]
    kind = "" if isinstance(root, RowError) else f"{type(root).__name__}: "
    what = f"the dataset {source.path!r}{name} cannot be read: {kind}{reason}"
    if len(paths := list(local_files(files))) == 1:
        what += f" ({Place(paths[0])})"
    fix, away = "", is_out_of_reach(error)
    if away or (isinstance(error, OSError) and not source.arguments):
        fix = (
            "check the name, the network and the access rights; offline, a dataset "
            "must be in the cache already or come from local files"
        )
    error_class = UnreachableError if away else TaskFileError
    return error_class([Problem(what, source.place, fix)])


def _first_fault(files: Iterable[Path], arguments: Mapping[str, Any]) -> str | None:
    """The first row that cannot be used of files of JSON."""
    for file in files:
        with suppress(UnicodeDecodeError):
            fault = json_fault(file, arguments)
            if fault is not None:
                return fault
    return None


def _is_script(source: Source) -> TaskFileError:
    """The error for a dataset that is a Python script; ``datasets`` 4 runs none."""
    trusted = "trust_remote_code" in source.arguments
    useless = ", with or without trust_remote_code" if trusted else ""
    what = (
        f"the dataset {source.path!r} is a loading script, which the datasets library "
        f"runs no more{useless}"
    )
    fix = (
        "a dataset of the Hub mostly has its files as Parquet too: dataset_kwargs: "
        "{revision: refs/convert/parquet}; or read yours with custom_dataset"
    )
    return TaskFileError([Problem(what, source.place, fix)])
