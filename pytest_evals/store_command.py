"""``pytest-model-evals store info|verify|prune|merge|export``: the stored responses."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

from pytest_evals.errors import StoreError, plural
from pytest_evals.reports.escape import one_line
from pytest_evals.store.cache import encoded_files
from pytest_evals.store.files import read_json, shown_size
from pytest_evals.store.history import RESULTS, earlier_runs
from pytest_evals.store.maintenance import (
    UNKNOWN,
    StoredRow,
    damage,
    delete,
    exported,
    model_names,
    new_store,
    opened,
    rows_of,
    store_path,
)
from pytest_evals.store.parts import PARTS
from pytest_evals.store.recovery import add_rows

_SHOWN = 10  # Damaged rows and conflicts that are listed
_TEXT = 200  # Characters of a reply
_UNITS_S = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_AGES = (("last day", 1), ("last week", 7), ("last 30 days", 30), ("last year", 365))


def main(prog: str, arguments: Sequence[str]) -> int:
    """Run a command on the store and return its exit code."""
    parser = _parser(prog)
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{prog} store",
        description="Work with stored responses, even while runs use them.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=f"{text}.")
        one.add_argument(
            "--dir", type=Path, default=Path(".evals"), help="results folder"
        )
        one.set_defaults(run=run)
        return one

    command("info", _info, "Show sizes by model, task and age")
    command("verify", _verify, "Check every checksum and key; exit with 1 if one fails")
    prune = command("prune", _prune, "List responses to delete, and delete with --yes")
    prune.add_argument(
        "--older-than", metavar="AGE", type=_age, help="not used for 12h, 30d or 8w"
    )
    prune.add_argument("--model", metavar="GLOB", help="of a model, as info names it")
    prune.add_argument(
        "--max-size",
        metavar="SIZE",
        type=_size,
        help="the least recently used, until 500MB or 2GB are left",
    )
    prune.add_argument(
        "--unused-by",
        metavar="N",
        type=int,
        help="used by none of the last N runs, and by no baseline",
    )
    prune.add_argument("--yes", action="store_true", help="delete them")
    prune.add_argument(
        "--dry-run", action="store_true", help="delete nothing (the default)"
    )
    merge = command("merge", _merge, "Add the responses of other stores")
    merge.add_argument(
        "others", metavar="STORE", nargs="+", type=Path, help="results folder, or file"
    )
    export = command("export", _export, "Write all responses as JSON Lines")
    export.add_argument(
        "-o", "--output", metavar="PATH", type=Path, required=True, help="output file"
    )
    return parser


def _age(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError("expected hours, days or weeks, such as 30d")
    return float(found[1]) * _UNITS_S[found[2]]


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(|kb|mb|gb)", text.lower())
    if found is None:
        raise argparse.ArgumentTypeError("expected a size, such as 500MB")
    return int(float(found[1]) * _UNITS[found[2]])


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _info(options: argparse.Namespace) -> int:
    path = store_path(options.dir)
    with opened(path) as connection:
        rows = [*rows_of(connection)]
    log = path.with_name(f"{path.name}-wal")
    on_disk = path.stat().st_size + (log.stat().st_size if log.exists() else 0)
    _write(f"{path}: {plural(len(rows), 'response')}, {shown_size(on_disk)} on disk")
    _table("model", rows, lambda row: row.model)
    _table("task that used it last", rows, lambda row: row.task or UNKNOWN)
    _table("last use", rows, _age_group)
    kept = encoded_files(options.dir)
    if kept:
        size = sum(one.size for one in kept)
        _write(f"encoded requests: {plural(len(kept), 'file')}, {shown_size(size)}")
    for name in ("runs", "baselines"):
        folder = options.dir / name
        found = [one for one in folder.glob("*") if one.is_dir()]
        if found:
            size = sum(file.lstat().st_size for file in folder.rglob("*"))
            _write(f"{name}: {len(found):,}, {shown_size(size)}")
    return 0


def _table(
    title: str, rows: Iterable[StoredRow], key: Callable[[StoredRow], str]
) -> None:
    groups: dict[str, list[StoredRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    width = max([len(title), *(min(len(one), 48) for one in groups)])
    _write(f"\n{title:<{width}}  responses      size  last use")
    by_size = sorted(groups.items(), key=lambda one: -sum(r.size for r in one[1]))
    for name, found in by_size:
        size, used = sum(r.size for r in found), max(r.used for r in found)
        when = f"{datetime.fromtimestamp(used, UTC):%Y-%m-%d}"
        shown = one_line(name)[:48]
        _write(f"{shown:<{width}}  {len(found):>9,}  {shown_size(size):>8}  {when}")


def _age_group(row: StoredRow) -> str:
    days = (time.time() - row.used) / _UNITS_S["d"]
    return next((name for name, most in _AGES if days <= most), "earlier")


def _verify(options: argparse.Namespace) -> int:
    path = store_path(options.dir)
    try:
        with opened(path) as connection:
            faults, n_intact = damage(path, connection)
    except StoreError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if not faults:
        _write(f"{path}: all {n_intact:,} responses match their checksums and keys")
        return 0
    for fault in faults[:_SHOWN]:
        _write(f"{path}: {fault}")
    _write(
        f"{path}: {plural(len(faults), 'fault')}; "
        f"{plural(n_intact, 'response')} can be used\n"
        "  fix: runs send the requests of damaged responses again; to repair the file "
        "at once,\n    rename it and run pytest-model-evals store merge RENAMED"
    )
    return 1


def _prune(options: argparse.Namespace) -> int:
    path = store_path(options.dir)
    given = (options.older_than, options.model, options.max_size, options.unused_by)
    if all(one is None for one in given):
        raise StoreError(
            "prune needs to know which responses to delete\n"
            "  fix: give --older-than, --model, --max-size or --unused-by"
        )
    if options.unused_by is not None and options.unused_by < 1:
        raise StoreError("--unused-by: expected a number of runs from 1")
    with opened(path, writes=True) as connection:
        every = [*rows_of(connection)]
        chosen = [*_chosen(every, options)]
        size = sum(row.size for row in chosen)
        of = plural(len(every), "response")
        message = f"{len(chosen):,} of {of}, {shown_size(size)}"
        if chosen:
            _table("model", chosen, lambda row: row.model)
            _table("task that used it last", chosen, lambda r: r.task or UNKNOWN)
            _write("")
        if not options.yes or options.dry_run:
            _write(f"would delete {message}; nothing was deleted: add --yes")
            return 0
        n = delete(path, connection, chosen)
    _write(f"deleted {message}")
    if kept := len(chosen) - n:
        _write(f"but {plural(kept, 'response')} stayed: used by a run, or the newest")
    return 0


def _chosen(
    every: Sequence[StoredRow], options: argparse.Namespace
) -> Iterator[StoredRow]:
    """Yield the rows that meet all criteria, the least recently used first."""
    rows: Iterable[StoredRow] = sorted(every, key=lambda row: row.used)
    if options.older_than is not None:
        until = time.time() - options.older_than
        rows = [row for row in rows if row.used < until]
    if options.model is not None:
        glob = options.model if "*" in options.model else f"*{options.model}*"
        rows = [row for row in rows if fnmatch(row.model, glob)]
    if options.unused_by is not None:
        runs = earlier_runs(options.dir)[: options.unused_by]
        if len(runs) < options.unused_by:
            _write(f"{options.dir / 'runs'} has only {plural(len(runs), 'run')}")
            return
        since = min(float(run.results["date"]) for run in runs)
        kept = [*_windows(options.dir / "baselines")]
        rows = [
            row
            for row in rows
            if row.used < since
            # A run may have used what was there, and was used during it or later.
            and not any(row.stored <= end and row.used >= start for start, end in kept)
        ]
    left = sum(row.size for row in every)
    for row in rows:
        if options.max_size is not None and left <= options.max_size:
            return
        left -= row.size
        yield row


def _windows(folder: Path) -> Iterator[tuple[float, float]]:
    """Yield start and end of the runs of the baselines in a folder."""
    for place in sorted(folder.glob("*")):
        if not (place / RESULTS).is_file():
            continue
        results = read_json(place / RESULTS)
        start = results.get("date")
        if not isinstance(start, int | float):  # unknown: everything may be its own
            yield 0.0, time.time()
            continue
        took = float(results.get("total_evaluation_time_seconds") or 0)
        yield start, start + took
        for part in read_json(place / PARTS).get("parts") or ():
            yield part["started"], part["started"] + part["elapsed_s"]


def _merge(options: argparse.Namespace) -> int:
    sources = [store_path(other) for other in options.others]
    path = new_store(options.dir)
    conflicts = 0
    for source in sources:
        if source.samefile(path):
            raise StoreError(f"{source}: is the store itself")
        with opened(source) as there, opened(path, writes=True) as here:
            added = add_rows(path, here, there)
            names = model_names(there)
        conflicts += len(added.conflicts)
        _write(
            f"{source}: {plural(added.n_added, 'response')} added, "
            f"{added.n_same:,} were here already"
            + f", {added.n_damaged:,} damaged left out"
            * (added.n_damaged > 0)
        )
        for one in added.conflicts[:_SHOWN]:
            name = one_line(names.get(one.model, UNKNOWN))
            _write(f"  different replies of {name} to one request")
            _write(f"    kept:  {one_line(one.here)[:_TEXT]}")
            _write(f"    other: {one_line(one.there)[:_TEXT]}")
    if conflicts:
        _write(
            f"{plural(conflicts, 'request')} with different replies; those here were "
            "kept"
        )
    return 0


def _export(options: argparse.Namespace) -> int:
    path, n, n_damaged = store_path(options.dir), 0, 0
    try:
        with (
            opened(path) as connection,
            options.output.open("w", encoding="utf-8") as stream,
        ):
            for one in exported(connection):
                if one is None:
                    n_damaged += 1
                    continue
                stream.write(json.dumps(one, ensure_ascii=False) + "\n")
                n += 1
    except OSError as error:
        raise StoreError(f"{options.output}: cannot be written: {error}") from None
    left_out = f"; {n_damaged:,} damaged left out" * (n_damaged > 0)
    _write(f"export: {plural(n, 'response')} to {options.output}{left_out}")
    return 0
