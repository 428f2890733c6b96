"""Files with a row for each document, from any program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.result_files.documents import (
    NO_FILTER,
    GradedAnswer,
    as_number,
    document_rows,
    shown_fields,
)
from pytest_evals.result_files.foreign_run import ForeignRun, foreign_run
from pytest_evals.result_files.tables import PlacedRow, read_table

IDS = ("id", "doc_id", "sample_id")
"""Keys of a document's id, the first that every row has."""
REPEATS = ("epoch", "repeat", "attempt", "trial")
"""Keys that number the answers to one document."""
SCORES = ("metrics", "scores", "metric")
"""Keys of a mapping with the scores of a row."""
_SHOWN: Mapping[str, Sequence[str]] = {
    "prompt": ("prompt", "input", "question", "query"),
    "target": ("target", "expected", "reference", "gold"),
    "answer": ("answer", "response", "output", "prediction", "completion"),
}
_ERRORED = ("error", "errored")


def read_row_file(path: Path, gated: Collection[str], id_key: str = "") -> ForeignRun:
    """A file with a row for each document; the task is called like the file, unless the
    rows have a ``task``.

    Args:
        gated: Names of the metrics that gates use; only these keys are scores.
        id_key: Key of the document's id; empty for one of :data:`IDS`.

    Raises:
        OptionError: It cannot be read, a row has no id, or no row has a metric.
    """
    rows = read_table(path)
    name = path.name.partition(".")[0]
    key = id_key or next((k for k in IDS if all(k in row.fields for row in rows)), "")
    tasks: dict[str, list[GradedAnswer]] = {}
    for number, row in enumerate(rows):
        task = row.fields.get("task")
        task = task if isinstance(task, str) and task else name
        tasks.setdefault(task, []).append(_answer(row, key, number, gated))
    _check_scores(rows, gated)
    notes = [] if key else [f"{path.name}: the rows have no id, so position counts"]
    documents = {}
    for task, answers in tasks.items():
        documents[task], found = document_rows(answers)
        notes += found
    return foreign_run(path, "rows", documents, notes=notes)


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
    shown = {name: _first(fields, keys, scores) for name, keys in _SHOWN.items()}
    repeats = tuple(str(fields[one]) for one in REPEATS if one in fields)
    return GradedAnswer(
        at=at,
        id=str(fields[key]) if key else str(number),
        scores=scores,
        filter=str(fields.get("filter") or NO_FILTER),
        repeat=repeats or None,
        error=str(error or "an error") if is_error else "",
        fields=shown_fields(**shown, doc=fields),
    )


def _scores(row: PlacedRow, gated: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The scores of a row: those that it lists as its metrics, or that gates name."""
    at, fields = row
    listed = fields.get("metrics")
    names = (
        [one for one in listed if isinstance(one, str)]
        if isinstance(listed, list)
        else [*gated]
    )
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


def _first(
    fields: Mapping[str, Any], keys: Sequence[str], scores: Mapping[str, Any]
) -> Any:
    found = (fields[k] for k in keys if k in fields and k not in scores)
    return next((one for one in found if one is not None), None)
