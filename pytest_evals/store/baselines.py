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
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.core.doc import ALL, field_hash
from pytest_evals.core.reference import logprobs_in
from pytest_evals.errors import OptionError, StoreError, suggestion
from pytest_evals.store.files import append_lines, make_base, make_folder, write_json
from pytest_evals.store.flip_rates import NOISE
from pytest_evals.store.history import EarlierRun, load_run, read_run
from pytest_evals.store.parts import PARTS

_OPTION = "--evals-save-baseline"
_LEFT_OUT = frozenset(
    {"arguments", "doc", "filtered_resps", "resps", "tokens", "exchanges"}
)
"""Fields of a document that baselines omit."""


def check_name(name: str) -> str:
    """Return a baseline name that is valid on every file system.

    Raises:
        ValueError: It contains other characters.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        free = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:100]
        hint = f"; write {free}" if free else ""
        raise ValueError(f"a name has letters, digits and . _ - only{hint}")
    return name


def of_model(name: str, model: str) -> str:
    """Return the name under which the run of one of several models is saved."""
    return f"{name}-{re.sub(r'[^A-Za-z0-9._-]+', '_', model)}" if model else name


def check_model_names(name: str, models: Sequence[str]) -> None:
    """Check the names under which the runs of several models are saved.

    Raises:
        OptionError: One is too long, or two are equal.
    """
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
    own = of_model(name, model)
    is_name = os.path.basename(name) == name
    exists = is_name and os.path.isfile(base / "baselines" / own / "results.json")
    return own if exists else name


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
    """Check that an existing baseline with this name may be replaced.

    Raises:
        StoreError: It has another schema version.
    """
    try:
        fault = load_run(base / "baselines" / name).schema_fault if name else ""
    except StoreError:  # it does not exist or is damaged
        return
    if fault:
        raise StoreError(f"cannot replace the baseline {name!r}: {fault}")


def save_baseline(base: Path, name: str, run: EarlierRun) -> Path:
    """Save a run as a baseline, replacing one with the same name.

    Returns:
        The folder of the baseline.

    Raises:
        StoreError: It cannot be written; an existing baseline is left unchanged.
    """
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
        lines = [
            json.dumps(
                {**without_contents(row), **_fields(row, reads)}, ensure_ascii=False
            )
            for row in rows
        ]
        append_lines(folder / Path(files[task]).name, lines, _OPTION)
    results = {
        k: v for k, v in run.results.items() if k not in ("options", "comparison")
    }
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
