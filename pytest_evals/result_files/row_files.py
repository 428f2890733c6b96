"""Files with a row for each document, from any program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.result_files.documents import (
    NO_FILTER,
    ForeignRun,
    GradedAnswer,
    as_number,
    document_rows,
    foreign_run,
    shown_fields,
)
from pytest_evals.result_files.tables import PlacedRow, read_table
from pytest_evals.scorers.metrics import METRICS

IDS = ("id", "doc_id", "sample_id")
"""Keys of a document's id, the first that every row has."""
REPEATS = ("epoch", "repeat", "attempt", "trial")
"""Keys that number the answers to one document."""
SCORES = ("metrics", "scores", "metric")
"""Keys of a mapping with the scores of a row."""
SHOWN: Mapping[str, Sequence[str]] = {
    "prompt": ("prompt", "input", "question", "query"),
    "target": ("target", "expected", "reference", "gold"),
    "answer": ("answer", "response", "output", "prediction", "completion"),
}
"""What reports show of a row → its keys, of which the first with a value counts."""
_ERRORED = ("error", "errored")


def read_row_files(
    path: Path, files: Sequence[Path], gated: Collection[str], id_key: str = ""
) -> ForeignRun:
    """Files with a row for each document: a task for each, which is called like the
    file, unless the rows have a ``task``.

    Args:
        path: The file or folder that was named.
        files: The files; of several, those without a score are left out.
        gated: Names of the metrics that gates use; only these keys are scores. In files
            without any, keys with the names of known metrics are.
        id_key: Key of the document's id; empty for one of :data:`IDS`.

    Raises:
        OptionError: One cannot be read, a row has no id, no row has a metric, or two
            files have the same name.
    """
    _check_names(path, files)
    tables = {file: read_table(file) for file in files}
    _check_scores([row for rows in tables.values() for row in rows], gated)
    notes, tasks = list[str](), dict[str, list[GradedAnswer]]()
    read = {file: _scored_by(rows, gated) for file, rows in tables.items()}
    for file, rows in tables.items():
        names = read[file]
        if names is None and any(one is not None for one in read.values()):
            notes.append(f"{file.name}: left out, no row has a score")
            continue
        usual = (k for k in IDS if all(k in row.fields for row in rows))
        key = id_key or next(usual, "")
        if not key:
            notes.append(f"{file.name}: the rows have no id, so position counts")
        for number, row in enumerate(rows):
            task = row.fields.get("task")
            task = task if isinstance(task, str) and task else _task_name(file)
            tasks.setdefault(task, []).append(_answer(row, key, number, names or ()))
    documents = {}
    for task, answers in tasks.items():
        documents[task], found = document_rows(answers)
        notes += [f"{task}: {one}" if len(tasks) > 1 else one for one in found]
    return foreign_run(path, "rows", documents, notes=notes)


def _scored_by(
    rows: Sequence[PlacedRow], gated: Collection[str]
) -> Collection[str] | None:
    """The names of the metrics of gates if a row has one, none if a row has a known
    metric; ``None`` if no row has a score."""
    either = (gated, ()) if gated else ((),)
    return next((n for n in either if any(any(_scores(r, n)) for r in rows)), None)


def _task_name(file: Path) -> str:
    return file.name.partition(".")[0]


def _check_names(path: Path, files: Sequence[Path]) -> None:
    known: dict[str, Path] = {}
    for file in files:
        other = known.setdefault(_task_name(file), file)
        if other is not file:
            both = " and ".join(str(one.relative_to(path)) for one in (other, file))
            raise OptionError(
                f"{path}: {both} are of one task by their names\n"
                "  fix: name the folder of one run, or rename one of the files"
            )


def rows_of(
    rows: Sequence[PlacedRow], key: str, gated: Collection[str]
) -> list[dict[str, Any]]:
    """The rows of documents with different ids. ``key``: that of their ids."""
    return document_rows(_answer(row, key, 0, gated) for row in rows)[0]


def _check_scores(rows: Sequence[PlacedRow], gated: Collection[str]) -> None:
    """Check that some row has a score of each metric."""
    for name in sorted(gated):
        if rows and not any(
            one == name for row in rows for one, _ in _scores(row, [name])
        ):
            at, fields = rows[0]
            keys = ", ".join(map(repr, fields)) or "none"
            raise OptionError(f"{at}: no key {name!r}; the keys are {keys}")


def _answer(
    row: PlacedRow, key: str, number: int, gated: Collection[str]
) -> GradedAnswer:
    at, fields = row
    if key and key not in fields:
        keys = ", ".join(map(repr, fields)) or "none"
        raise OptionError(f"{at}: no key {key!r}; the keys are {keys}")
    scores = dict(_scores(row, gated))
    error = fields.get("error")
    is_error = bool(error) or str(fields.get("status", "")).lower() in _ERRORED
    repeats = tuple(str(fields[one]) for one in REPEATS if one in fields)
    return GradedAnswer(
        at=at,
        id=str(fields[key]) if key else str(number),
        scores=scores,
        filter=str(fields.get("filter") or NO_FILTER),
        repeat=repeats or None,
        error=str(error or "an error") if is_error else "",
        fields=shown_fields(**shown_values(fields, scores), doc=fields),
    )


def _scores(row: PlacedRow, gated: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The scores of a row: those that it lists as its metrics, or that gates name, or
    of known metrics."""
    at, fields = row
    listed = fields.get("metrics")
    names = [*gated] or [one for one in fields if one in METRICS]
    if isinstance(listed, list):
        names = [one for one in listed if isinstance(one, str)]
    for name in names:
        place: Any = fields
        if name not in fields:
            held = (fields[k] for k in SCORES if isinstance(fields.get(k), Mapping))
            place = next((one for one in held if name in one), None)
        if place is None:
            continue
        value = place[name]
        if (
            value not in (None, "")
            and as_number(value) is None
            and not isinstance(value, list)
        ):
            raise OptionError(f"{at}: {name} must be a number, not {value!r:.40}")
        yield name, value


def shown_values(fields: Mapping[str, Any], scores: Collection[str]) -> dict[str, Any]:
    """Prompt, target and answer of a row, ``None`` for missing ones. ``scores``: names
    of its metrics, which are none of them."""
    found: dict[str, Any] = {}
    for name, keys in SHOWN.items():
        found[name] = None
        for key in keys:
            if fields.get(key) is not None and key not in scores:
                found[name] = fields[key]
                break
    return found
