"""Loads the datasets that task files name, as rows by split.

Uses the ``datasets`` library, except for local files that plain readers read alike, or
if it is not installed. Paths are resolved relative to the task file first. A
dataset that several tasks share is loaded once per process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_evals.data.calls import FieldError, call
from pytest_evals.data.hub import (
    is_offline,
    is_unreachable,
    may_download,
    reading_datasets,
    refuse_away,
    sparing_hub,
    through_proxy,
)
from pytest_evals.data.json_rows import (
    RowError,
    are_likely_rows,
    guard_json_builder,
    json_error,
)
from pytest_evals.data.local_rows import (
    LARGEST,
    can_read,
    read_csv_rows,
    read_json_lines,
    read_local_rows,
)
from pytest_evals.data.network_variables import network_fault
from pytest_evals.data.source_paths import (
    FILE_BUILDERS,
    FORMATS,
    UNREADABLE,
    Source,
    empty_file_error,
    encoding_error,
    file_names,
    local_files,
    resolve,
    stamps,
)
from pytest_evals.data.user_files import encoding_problem
from pytest_evals.errors import (
    MissingExtraError,
    Place,
    Problem,
    TaskFileError,
    nearest,
)

_SAVED = ("dataset_dict.json", "state.json")
"""Files that identify a folder of ``save_to_disk``: with all splits, with one."""


def load(source: Source, *, plain: bool = False) -> Mapping[str, Any]:
    """Return the splits of a dataset: name → rows. ``plain``: whether plain rows are
    sufficient; otherwise they are a dataset of the ``datasets`` library, unless a
    user function creates them."""
    if source.maker is not None:
        return _user_dataset(source, source.maker)
    _check_builder(source)
    resolved = resolve(source)
    arguments = json.dumps(dict(resolved.arguments), sort_keys=True, default=repr)
    rest = (arguments, stamps(resolved), source.as_text)
    key = _CacheKey(resolved, (resolved.path, source.name, *rest))
    try:
        rows = _read_plain(key) if plain else None
        if rows is None and find_spec("datasets") is None:
            rows = _without_library(key, plain)
        if rows is not None:
            return rows
        of_hub = source.path not in FILE_BUILDERS and resolved.path == source.path
        refuse_away(file_names(resolved.arguments.get("data_files")))
        with reading_datasets(of_hub=of_hub):
            splits = _read(key)
    except Exception as error:
        raise _unreadable(source, resolved, error) from error
    if not isinstance(splits, Mapping):
        message = (
            "dataset_kwargs must not contain 'split', because the task names its splits"
        )
        fix = "remove 'split' and set test_split"
        raise TaskFileError([Problem(message, source.data_place, fix)])
    return splits


def not_utf8(source: Source) -> TaskFileError:
    """Return the error for a dataset with text that is not UTF-8, with file and line if
    they are known."""
    found = encoding_error(resolve(source).arguments.get("data_files"))
    message, byte = found or (f"text of the dataset {source.path!r}", 0)
    return TaskFileError([encoding_problem(str(message), source.data_place, byte)])


def is_of_hub(path: str) -> bool:
    """Return whether ``datasets`` looks for a dataset on the Hub."""
    return path not in FILE_BUILDERS and not os.path.exists(path)


def _check_builder(source: Source) -> None:
    """Refuse obvious typos before a server is contacted."""
    files = any(source.arguments.get(key) for key in ("data_files", "data_dir"))
    if source.path in FILE_BUILDERS:
        if not files:
            message = f"data_files is missing: {source.path!r} reads local files"
            fix = "dataset_kwargs: {data_files: {test: my_file}}"
            raise TaskFileError([Problem(message, source.data_place, fix)])
        return
    if Path(source.path).suffix in FORMATS:
        message = f"dataset_path is a file, {source.path!r}, instead of its format"
        kind = FORMATS[Path(source.path).suffix]
        arguments = f"{{data_files: {{test: {source.path}}}}}"
        fix = f"dataset_path: {kind}, with dataset_kwargs: {arguments}"
        raise TaskFileError([Problem(message, source.place, fix)])
    if "/" in source.path:
        return
    # Without files it may be a dataset of the Hub, such as text8.
    known = FILE_BUILDERS if files else FILE_BUILDERS[:-1]
    cutoff = 0.6 if files else 0.8
    near = nearest(source.path, known, cutoff)
    folders = (source.place.path.parent, source.base)
    if near and not any(os.path.isdir(folder / source.path) for folder in folders):
        message = f"unknown dataset {source.path!r}; did you mean {near!r}?"
        fix = f"dataset_path: {near}"
        raise TaskFileError([Problem(message, source.place, fix)])


def _user_dataset(source: Source, maker: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        with sparing_hub(probes=may_download(maker)):
            splits_ = call(
                lambda: maker(**source.arguments), (), "custom_dataset", source.place
            )
    except FieldError as error:
        fix = f"check the network{through_proxy()}" if error.problem.unreachable else ""
        raise TaskFileError([replace(error.problem, fix=fix)]) from error
    if not isinstance(splits_, Mapping):
        message = "custom_dataset must return a mapping of splits, not "
        message += f"{type(splits_).__name__}"
        raise TaskFileError([Problem(message, source.place)])
    return splits_


@dataclass(frozen=True, slots=True)
class _CacheKey:
    """A source, and everything that affects its rows."""

    source: Source = field(compare=False)
    identity: tuple[Any, ...]


def _by_split(source: Source) -> Mapping[str, Any]:
    files = source.arguments.get("data_files")
    return files if isinstance(files, Mapping) else {"train": files}


@lru_cache(maxsize=64)
def _read_plain(key: _CacheKey) -> Mapping[str, Any] | None:
    """Return the rows of JSON lines, or of CSV files as text, that do not need the
    library, or ``None``."""
    source = key.source
    by_split = _by_split(source)
    if source.path == "csv" and source.as_text:
        paths = {split: [*local_files(value)] for split, value in by_split.items()}
        sizes = [one.stat().st_size for listed in paths.values() for one in listed]
        is_small = max(sizes, default=0) <= LARGEST
        with suppress(*UNREADABLE):  # an archive, or files of a server
            if is_small and all(paths.values()):
                return read_csv_rows(paths, source.arguments.get("sep", ","))
        return None
    if source.path != "json" or source.name or set(source.arguments) != {"data_files"}:
        return None
    return read_json_lines(
        {
            split: [Path(name) for name in file_names(value)]
            for split, value in by_split.items()
        }
    )


@lru_cache(maxsize=64)
def _read(key: _CacheKey) -> Any:
    import datasets

    source = key.source
    guard_json_builder()
    _check_json(source)
    for folder in (source.arguments.get("data_dir"), source.path):
        if folder and any(os.path.isfile(Path(folder) / name) for name in _SAVED):
            saved = datasets.load_from_disk(folder)
            is_one = not isinstance(saved, Mapping)  # a single split keeps its name
            return {str(saved.split or "train"): saved} if is_one else saved
    arguments = dict(source.arguments)
    if isinstance(arguments.get("features"), Mapping):
        arguments["features"] = make_features(arguments["features"])
    splits = datasets.load_dataset(source.path, name=source.name, **arguments)
    one = next(iter(splits.values()), None) if source.as_text else None
    if one is None or one.info.builder_name != "csv":
        return splits
    arguments["features"] = make_features(dict.fromkeys(one.column_names, "string"))
    arguments["keep_default_na"] = False
    try:
        return datasets.load_dataset(source.path, name=source.name, **arguments)
    except ValueError as error:  # offline: the library finds no copy with these
        if not str(error).startswith("Couldn't find cache"):
            raise
        return _cached_text(source, one)


def _cached_text(source: Source, typed: Any) -> Any:
    """Return the copy of a dataset in the library's cache whose cells are text. Raises
    TaskFileError if it does not exist."""
    from datasets.packaged_modules.cache.cache import Cache

    folder = Path(typed.cache_files[0]["filename"]).parent
    _, name, version, digest = folder.parts[-4:]
    for info in folder.parents[2].glob(
        f"{name}-*/{version}/{digest}/dataset_info.json"
    ):
        features = json.loads(info.read_text(encoding="utf-8"))["features"]
        kinds = {one.get("dtype") for one in features.values()}
        if kinds == {"string"} and [*features] == typed.column_names:
            copy = Cache(
                repo_id=source.path,
                dataset_name=typed.info.dataset_name,
                config_name=info.parts[-4],
                version=version,
                hash=digest,
            )
            copy.download_and_prepare()
            return copy.as_dataset()
    message = (
        f"the dataset {source.path!r} is in CSV files, and the cache contains only a "
        "copy with converted values, such as 4.9 for 4.90"
    )
    fix = "run the eval once with a network, or use a local copy of the CSV files"
    raise TaskFileError([Problem(message, source.place, fix, unreachable=True)])


def _without_library(key: _CacheKey, plain: bool) -> Mapping[str, Any]:
    """Return the rows of local files where the ``datasets`` library is missing. Raises
    TaskFileError if only the library can read them."""
    source = key.source
    paths = {split: [*local_files(one)] for split, one in _by_split(source).items()}
    if not (plain and can_read(source.path, source.arguments) and all(paths.values())):
        error = MissingExtraError(f"the dataset {source.path!r}", "datasets", "data")
        message, _, fix = str(error).partition(": pip")
        raise TaskFileError([Problem(message, source.place, f"pip{fix}")])
    _check_json(source)
    return read_local_rows(source.path, paths, source.arguments, as_text=source.as_text)


def _check_json(source: Source) -> None:
    files = source.arguments.get("data_files") if source.path == "json" else None
    for path in local_files(files):
        if not {"encoding", "field"} & source.arguments.keys() and are_likely_rows(
            path
        ):
            continue
        error_ = json_error(path, source.arguments)
        if error_ is not None:
            raise TaskFileError([Problem(error_, source.data_place)])


def _unreadable(source: Source, resolve: Source, error: Exception) -> TaskFileError:
    if isinstance(error, TaskFileError):
        return error
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    if isinstance(root, UnicodeDecodeError):
        return not_utf8(source)
    files = resolve.arguments.get("data_files")
    error_ = empty_file_error(files, root)
    if error_ is None and resolve.path == "json":
        error_ = _first_error(local_files(files), resolve.arguments)
    if error_ is None and isinstance(root, RowError):
        folder = Path(resolve.arguments.get("data_dir") or resolve.path)
        error_ = _first_error(sorted(folder.rglob("*json*")), {})
    if error_ is not None:
        return TaskFileError([Problem(error_, source.data_place)])
    if "Dataset scripts are no longer supported" in str(root):
        return _script_error(source)
    name = f" ({source.name})" if source.name else ""
    reason = (str(root).strip() or "no reason given").splitlines()[0]
    kind = "" if isinstance(root, RowError) else f"{type(root).__name__}: "
    message = f"the dataset {source.path!r}{name} cannot be read: {kind}{reason}"
    if len(paths := list(local_files(files))) == 1:
        message += f" ({Place(paths[0])})"
    fix = f"pip install {root.name}" if isinstance(root, ModuleNotFoundError) else ""
    unreachable = is_unreachable(error) or is_offline(file_names(files))
    if unreachable or (isinstance(error, OSError) and not source.arguments):
        fix = f"check the name, the network{through_proxy()} and the access rights; "
        fix += "offline, a dataset must be in the cache or be read from local files"
    problem = Problem(message, source.place, fix, unreachable)
    return TaskFileError([problem if paths else _with_network(problem)])


def _with_network(problem: Problem) -> Problem:
    """Return a problem with the variable that keeps HTTP clients from the network."""
    cause, _, fix = network_fault("https:").partition("\n  fix: ")
    message = f"{problem.message} ({cause})"
    return replace(problem, message=message, fix=fix) if cause else problem


def _first_error(files: Iterable[Path], arguments: Mapping[str, Any]) -> str | None:
    for file in files:
        with suppress(UnicodeDecodeError):
            error_ = json_error(file, arguments)
            if error_ is not None:
                return error_
    return None


def _script_error(source: Source) -> TaskFileError:
    """Return the error for a Python script, which ``datasets`` 4 does not run."""
    trusted = "trust_remote_code" in source.arguments
    useless = ", with or without trust_remote_code" if trusted else ""
    message = (
        f"the dataset {source.path!r} is a loading script, which the datasets library "
        f"no longer runs{useless}"
    )
    fix = "most datasets of the Hub are also available as Parquet: dataset_kwargs: "
    fix += "{revision: refs/convert/parquet}; or load it with custom_dataset"
    return TaskFileError([Problem(message, source.place, fix)])


def make_features(given: Mapping[str, Any]) -> Any:
    """Return the features of the ``datasets`` library. ``given``: column → type: a name
    such as ``string``; ``{dtype: string}``, with ``sequence: true`` for lists
    (InfiniteBench in lm-eval uses this, and lm-eval 0.4.13 fails on it with datasets
    5); or the serialized form of the library, with ``_type``. Raises ValueError if a
    type is none of these."""
    import datasets

    serialized = {name: _serialized(name, kind) for name, kind in given.items()}
    return datasets.Features.from_dict(serialized)


def _serialized(name: str, kind: Any) -> Any:
    if isinstance(kind, str):
        return {"dtype": kind, "_type": "Value"}
    if isinstance(kind, Mapping) and "_type" in kind:
        return dict(kind)
    if not isinstance(kind, Mapping) or not isinstance(kind.get("dtype"), str):
        raise ValueError(f"features: {name!r} has no dtype")
    if unknown := sorted(kind.keys() - {"dtype", "sequence"}):
        raise ValueError(f"features: {name!r} has an unknown key {unknown[0]!r}")
    value = {"dtype": kind["dtype"], "_type": "Value"}
    return {"feature": value, "_type": "Sequence"} if kind.get("sequence") else value
