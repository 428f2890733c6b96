"""Which program made the results in a file or folder, and their reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pytest_evals.errors import OptionError, Place, StoreError, similar_file
from pytest_evals.result_files.agent_trials import (
    is_swe_bench,
    read_harbor,
    read_swe_bench,
    trial_files,
)
from pytest_evals.result_files.inspect_logs import is_log, read_inspect
from pytest_evals.result_files.lighteval import details_files, read_lighteval
from pytest_evals.result_files.lm_eval import (
    is_results,
    read_lm_eval,
    results_files,
    samples_files,
)
from pytest_evals.result_files.row_files import read_row_files
from pytest_evals.result_files.tables import SUFFIXES, is_table, parse_json, read_bytes
from pytest_evals.store.history import RESULTS, EarlierRun, read_run

_FOLDERS: Sequence[
    tuple[Callable[[Path], Sequence[Path]], Callable[[Path], EarlierRun]]
] = (
    (details_files, read_lighteval),
    (results_files, read_lm_eval),
    (samples_files, read_lm_eval),
    (trial_files, read_harbor),
)
"""What finds a program's files in a folder, and their reader."""
_KNOWN = (
    "a run of pytest --model or a baseline, output of lm-eval, lighteval or inspect, a "
    "job of Harbor, a report of SWE-bench, or JSON Lines, CSV or Parquet with a row "
    "for each document, one file or a folder with a file for each task"
)


def read_results(
    path: Path, *, gated: Collection[str] = (), id_key: str = ""
) -> EarlierRun:
    """The run in a file or folder.

    Args:
        gated: Names of the metrics that gates use, for files with a row a document.
        id_key: Key of the document's id in such files; empty for the usual ones.

    Raises:
        OptionError: It does not exist, or has an unknown format.
        StoreError: A stored run of ours cannot be read.
    """
    if path.is_dir():
        return _read_folder(path, gated, id_key)
    if not path.is_file():
        raise OptionError(
            f"{path}: no such file or folder{similar_file(path)}\n"
            "  fix: name results, such as a folder in .evals/runs"
        )
    if path.name == RESULTS and _is_ours(path.parent):
        return read_run(path.parent)
    if is_log(path):
        return read_inspect(path)
    name = path.name
    if name.startswith("details_") and name.endswith(".parquet"):
        return read_lighteval(path)
    if not id_key and path in samples_files(path.parent):
        return read_lm_eval(path)
    return _read_json(path) or read_row_files(path, [path], gated, id_key)


def _read_json(path: Path) -> EarlierRun | None:
    """The run in a JSON file with one object; ``None`` for other files."""
    if path.suffix != ".json":
        return None
    found = parse_json(read_bytes(path), path)
    if isinstance(found, list):
        return None
    if is_swe_bench(found):
        return read_swe_bench(path)
    if isinstance(found, dict) and "config_general" in found:
        return read_lighteval(path)
    if is_results(path):
        return read_lm_eval(path)
    raise OptionError(f"{Place(path)}: unknown format\n  fix: pass {_KNOWN}")


def _is_ours(folder: Path) -> bool:
    """Whether a folder is a stored run of this program."""
    try:
        run = read_run(folder)
    except StoreError:
        return (folder / RESULTS).is_file() and not is_results(folder / RESULTS)
    return "schema_version" in run.results


def _read_folder(folder: Path, gated: Collection[str], id_key: str) -> EarlierRun:
    if _is_ours(folder):
        return read_run(folder)
    ours = [one for one in results_files(folder) if _is_ours(one.parent)]
    if len(ours) == 1:
        return read_run(ours[0].parent)
    for finds, reads in _FOLDERS:
        if finds(folder):
            return reads(folder)
    files = [path for path in sorted(folder.rglob("*")) if _is_shown(path, folder)]
    if any(map(is_log, files)):
        return read_inspect(folder)
    named = [path for path in files if path.suffix in SUFFIXES]
    if len(named) == 1:
        return read_results(named[0], gated=gated, id_key=id_key)
    if tables := [*filter(is_table, files)]:
        return read_row_files(folder, tables, gated, id_key)
    raise OptionError(f"{folder}: no results in it\n  fix: pass {_KNOWN}")


def _is_shown(path: Path, folder: Path) -> bool:
    """Whether it is a file that is not hidden, as those of editors and caches are."""
    names = path.relative_to(folder).parts
    return path.is_file() and not any(name.startswith(".") for name in names)
