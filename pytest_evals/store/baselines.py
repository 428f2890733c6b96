"""Baselines: runs saved on purpose, small enough to commit.

A baseline is a folder like that of a run. Its documents have hashes, scores and
answers, but neither rows nor prompts; the fields that scoring reads are stored as
hashes.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.core.doc import ALL, field_hash
from pytest_evals.core.reference import logprobs_in
from pytest_evals.errors import OptionError, StoreError, suggestion
from pytest_evals.store.files import (
    append_lines,
    make_base,
    make_folder,
    read_json,
    write_json,
)
from pytest_evals.store.history import EarlierRun, load_run, read_run
from pytest_evals.store.parts import PARTS
from pytest_evals.store.schema import SCHEMAS, schema_fault

NOISE = "noise.json"
"""Measured flip rates between two runs of one model, in the folder of a baseline."""
_OPTION = "--evals-save-baseline"
_LEFT_OUT = frozenset(
    {"arguments", "doc", "filtered_resps", "resps", "tokens", "exchanges"}
)
"""Fields of a document that baselines omit."""


def check_name(name: str) -> str:
    """Return a baseline name that is valid on every file system; ``ValueError`` if it
    contains other characters."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        free = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:100]
        hint = f"; write {free}" if free else ""
        raise ValueError(f"a name has letters, digits and . _ - only{hint}")
    return name


def of_model(name: str, model: str) -> str:
    """Return the name under which the run of one of several models is saved."""
    return f"{name}-{re.sub(r'[^A-Za-z0-9._-]+', '_', model)}" if model else name


def check_model_names(name: str, models: Sequence[str]) -> None:
    """Check the names under which the runs of several models are saved; ``OptionError``
    if one is too long, or two are equal."""
    seen: dict[str, str] = {}
    for model in models:
        saved = of_model(name, model)
        other = seen.setdefault(saved, model)
        fix = f"  fix: name the models: --model=short={model}"
        if other is not model:
            raise OptionError(
                f"{_OPTION}={name}: {other!r} and {model!r} would both be saved as "
                f"{saved!r}\n{fix}"
            )
        try:
            check_name(saved)
        except ValueError as error:
            raise OptionError(f"{_OPTION}={name}: {saved!r}: {error}\n{fix}") from None


def own_baseline(base: Path, name: str, model: str) -> str:
    """Return the baseline of one of several models: that saved for it, if there is one;
    otherwise ``name``, which all models share."""
    of_its_own = of_model(name, model)
    is_name = os.path.basename(name) == name
    exists = is_name and os.path.isfile(
        base / "baselines" / of_its_own / "results.json"
    )
    return of_its_own if exists else name


def find_baseline(base: Path, name: str, here: Path) -> EarlierRun:
    """Return the baseline with a name, or the baseline or run in a folder.

    Raises:
        StoreError: It does not exist; the message suggests the nearest name.
    """
    place = base / "baselines" / name
    if not os.path.isfile(place / "results.json"):
        place = here / os.path.expanduser(name)
    if place.name == "results.json":
        place = place.parent
    if not os.path.isfile(place / "results.json"):
        known = sorted(p.parent.name for p in base.glob("baselines/*/results.json"))
        hint = suggestion(name, known) if known else f"; save one with {_OPTION}"
        raise StoreError(f"unknown baseline {name!r} (not a run folder either){hint}")
    return read_run(place)


def check_replaceable(base: Path, name: str) -> None:
    """Check that an existing baseline with this name may be replaced; ``StoreError`` if
    it has another schema version."""
    try:
        fault = load_run(base / "baselines" / name).schema_fault if name else ""
    except StoreError:  # it does not exist or is damaged
        return
    if fault:
        raise StoreError(f"cannot replace the baseline {name!r}: {fault}")


def save_baseline(base: Path, name: str, run: EarlierRun) -> Path:
    """Save a run as a baseline, replacing one with the same name; return its folder.
    ``StoreError`` if it cannot be written: an existing baseline is left unchanged."""
    check_replaceable(base, name)
    make_base(base)
    folder = base / "baselines"
    make_folder(folder, _OPTION)
    place, draft = folder / name, folder / f".{secrets.token_hex(8)}.tmp"
    try:
        make_folder(draft, _OPTION)
        _write(run, draft)
        if (run.path / PARTS).is_file():
            shutil.copy2(run.path / PARTS, draft / PARTS)
        if (place / NOISE).is_file():  # it is the model's, and not of one run
            shutil.copy2(place / NOISE, draft / NOISE)
        _replace(draft, place)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"cannot write the baseline {str(place)!r}: {why}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _write(run: EarlierRun, folder: Path) -> None:
    files: dict[str, str] = dict(run.results.get("sample_files") or {})
    for task in run.tasks:
        rows = sorted(run.all_rows(task), key=lambda row: row["doc_id"])
        reads = {field for row in rows for field in row.get("reads") or ()}
        if not reads and any("reads" in row for row in rows):
            reads = {ALL}  # code got the row and was not seen to read it
        kept = ({**without_contents(row), **_fields(row, reads)} for row in rows)
        lines = [json.dumps(row, ensure_ascii=False) for row in kept]
        append_lines(folder / Path(files[task]).name, lines, _OPTION)
    left_out = ("options", "comparison")
    results = {k: v for k, v in run.results.items() if k not in left_out}
    write_json(folder / "results.json", results, _OPTION)


def without_contents(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's row as baselines store it: without prompts and responses, but
    with the log-probabilities of its choices."""
    kept = {k: v for k, v in row.items() if k not in _LEFT_OUT}
    logprobs = logprobs_in(row)
    return {**kept, "logprobs": [*logprobs]} if logprobs else kept


def _fields(row: Mapping[str, Any], reads: Collection[str]) -> dict[str, Any]:
    """Return hashes of the fields that scoring reads; :data:`ALL` for all fields."""
    if not reads:
        return {}
    doc = row.get("doc") or {}
    named = {ALL: "", **doc} if ALL in reads else reads
    return {"fields": {one: field_hash(doc, one) for one in named}}


def _replace(draft: Path, place: Path) -> None:
    old = draft.with_suffix(".old")
    if place.exists():
        place.rename(old)
    try:
        draft.rename(place)
    except OSError:
        if old.exists():
            old.rename(place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def save_flip_rates(folder: Path, noise: Mapping[str, Any]) -> None:
    """Write the flip rates of tasks next to a baseline; those of other tasks are kept.
    ``noise``: for each task and key of a metric, ``flip_rate``, or ``mean_square`` for
    answers that are not correct or wrong, and other measurements.

    Raises:
        StoreError: It cannot be written, or has another schema version.
    """
    known = {
        **_flip_rates(folder / NOISE),
        "schema_version": SCHEMAS["results"].current,
    }
    write_json(folder / NOISE, {**known, **noise}, "--evals-repeatability")


def stored_flip_rate(base: Path, name: str, task: str, key: str) -> float | None:
    """Return the fraction of answers that flip between two runs, or the mean squared
    change of other numbers; ``None`` if it was not measured. ``name``: the baseline to
    read first; then the others, the latest first. ``key``: metric and filter; any
    filter if it is the metric alone."""
    for folder in _with_flip_rates(base, name):
        try:
            numbers = _flip_rates(folder / NOISE).get(task)
        except StoreError:  # reported when it is written again
            continue
        for known, found in numbers.items() if isinstance(numbers, dict) else ():
            if isinstance(found, dict) and key in (known, known.partition(",")[0]):
                rate = _rate(found)
                if rate is not None:
                    return rate
    return None


def _rate(found: Mapping[str, Any]) -> float | None:
    for name, most in (("flip_rate", 1.0), ("mean_square", sys.float_info.max)):
        value = found.get(name)
        if isinstance(value, int | float) and 0 <= value <= most:
            return float(value)
    return None


def _with_flip_rates(base: Path, name: str) -> Iterator[Path]:
    folder = base / "baselines"
    if name:
        yield folder / name
    try:
        others = [path.parent for path in folder.glob(f"*/{NOISE}")]
        others.sort(key=lambda one: -(one / NOISE).stat().st_mtime)
    except OSError:  # reported where results are written
        return
    yield from others


def _flip_rates(path: Path) -> dict[str, Any]:
    found = read_json(path)
    fault = schema_fault("results", found.get("schema_version"), path)
    if fault:
        raise StoreError(fault)
    return found
