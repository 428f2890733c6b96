"""The data of an eval as a YAML file: the keys ``rows`` and ``dataset``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Any

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.rows import EncodingError, RowsError, Table
from pytest_evals.data.source_paths import FILE_BUILDERS, FORMATS, RowPlaces, Source
from pytest_evals.data.sources import load, not_utf8
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError, suggestion

_BUILDERS = {suffix: one for suffix, one in FORMATS.items() if one != "text"}
TURNS = "turns"  # column with the turns of a conversation
_COMPRESSED = (".bz2", ".gz", ".xz")
_DATASET_KEYS = ("delimiter", "name", "path", "revision", "split")
_OTHER_FORMATS = (".ods", ".txt", ".xls", ".xlsx", ".xml", ".yaml", ".yml")
"""Suffixes of tables that are not read, and cannot end the name of a dataset."""


class DataKeys:
    """Reads both keys of a file."""

    def __init__(self, top: Section, options: TaskOptions) -> None:
        self._top, self._options = top, options
        given = top.values.get("dataset")
        path = given.get("path") if isinstance(given, Mapping) else given
        self.path = path if isinstance(path, str) else ""
        """Path or name of the dataset, empty without one."""
        self.is_text = "rows" in top or _format(self.path) in (".csv", ".tsv")
        """Whether all values of rows are text, but for nested ones."""
        self.warnings: tuple[str, ...] = ()

    @property
    def has_target(self) -> bool:
        """Whether a row has a target; columns of a dataset are known later."""
        rows = self._top.values.get("rows")
        if not isinstance(rows, list):
            return True
        return any(isinstance(row, dict) and "target" in row for row in rows)

    def row_places(self) -> RowPlaces | None:
        """Where the rows are; ``None`` if they are not in a text file."""
        top = self._top
        if "rows" in top:
            rows, place = top.values["rows"], top.file.place
            n = len(rows) if isinstance(rows, list) else 0
            return RowPlaces(
                top.file.path, lambda: [place("rows", i).line for i in range(n)]
            )
        if _BUILDERS.get(_format(self.path)) not in ("csv", "json"):
            return None
        base = Path(self._options.base or Path.cwd())
        files = [folder / self.path for folder in (top.file.path.parent, base)]
        file = next((one for one in files if os.path.isfile(one)), files[0])
        return RowPlaces(file)

    def source(self) -> Callable[[], Table]:
        """Return a function that loads the rows; problems are added to the section."""
        top = self._top
        if "rows" in top and "dataset" in top:
            top.raw("rows"), top.raw("dataset")
            top.problem(
                "dataset", "rows and dataset are both set", "remove one of them"
            )
        if "dataset" in top and "rows" not in top:
            return self._dataset()
        if isinstance(top.values.get("rows"), str):
            file = top.text("rows")
            message = f"rows must be a list, not {file!r}"
            top.problem("rows", message, f"dataset: {file}")
            return lambda: Table([])
        rows = top.take("rows", list, [])
        for number, row in enumerate(rows):
            if not isinstance(row, dict) or not all(isinstance(k, str) for k in row):
                message = "a row must be a mapping of names to values"
                fix = '- {question: "2 + 2", target: "4"}'
                place = top.file.place("rows", number)
                top.problems.append(Problem(message, place, fix))
                return lambda: Table([])
        if not rows and not top.problems:
            top.problem("rows", "rows is empty", 'rows: [{question: "2 + 2"}]')
        self.warnings = (*self._written_nulls(rows),)
        rows = [{**row, **top.file.written(row)} for row in rows]
        self._check_turns(rows)
        if any("id" in row for row in rows):  # the others are called by position
            rows = [{"id": number, **row} for number, row in enumerate(rows)]
        return lambda: Table(rows)

    def _check_turns(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Refuse turns that are not sent, since the eval has a prompt."""
        top = self._top
        if "prompt" not in top or TURNS in str(top.values["prompt"]):
            return
        for number, row in enumerate(rows):
            if isinstance(row.get(TURNS), list):
                message = (
                    "the row has turns, and the eval has a prompt, so they are not sent"
                )
                fix = "remove prompt, or make it the first turn"
                place = top.file.place("rows", number, TURNS)
                top.problems.append(Problem(message, place, fix))
                return

    def _written_nulls(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield a warning for the first ``null`` or ``~`` of each column, which is that
        text."""
        columns = set[str]()
        for number, row in enumerate(rows):
            for name, text in self._top.file.written(row).items():
                if row[name] is None and text and name not in columns:
                    columns.add(name)
                    place = self._top.file.place("rows", number, name)
                    yield (
                        f"{place}: {name!r} is the text {text!r}, not a missing value; "
                        f'leave it empty, or quote it: "{text}"'
                    )

    def _dataset(self) -> Callable[[], Table]:
        top = self._top
        given = top.raw("dataset")
        entry = {"path": given} if isinstance(given, str) else given
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            fix = "dataset: rows.jsonl, or dataset: {path: org/name, split: test}"
            top.problem("dataset", "dataset must name a file or a dataset", fix)
            return lambda: Table([])
        for key in set(entry) - {*_DATASET_KEYS}:
            hint = suggestion(key, _DATASET_KEYS)
            top.problem("dataset", f"dataset has no key {key!r}{hint}")
        path, split = entry["path"], entry.get("split") or "test"
        place = top.place("dataset")
        _check_format(path, top)
        builder = _BUILDERS.get(_format(path))
        arguments: dict[str, Any] = {}
        if builder:
            arguments["data_files"] = {split: path}
            if _format(path) == ".tsv":
                arguments["sep"] = "\t"
            if "delimiter" in entry:
                arguments["sep"] = str(entry["delimiter"])
        if entry.get("revision") is not None:
            arguments["revision"] = str(entry["revision"])
        options = self._options
        source = Source(
            path=builder or path,
            name=entry.get("name"),
            arguments=arguments,
            place=place,
            data_place=place,
            base=Path(options.base) if options.base else Path.cwd(),
            as_text=True,
        )
        return lambda: _table(source, str(split), place)


def _check_format(path: str, top: Section) -> None:
    if path in FILE_BUILDERS:
        message = f"dataset must name a file or a dataset, not the format {path!r}"
        top.problem("dataset", message, "dataset: rows.jsonl")
    if (suffix := _format(path)) in _OTHER_FORMATS:
        message = f"dataset: {suffix} files are not read: {path!r}"
        fix = f"save it as one of {', '.join(sorted(_BUILDERS))}"
        top.problem("dataset", message, fix)


def _format(path: str) -> str:
    """The suffix of a data file, without that of its compression."""
    suffixes = [one.lower() for one in Path(path).suffixes] or [""]
    return (
        suffixes[-2] if suffixes[-1] in _COMPRESSED and suffixes[1:] else suffixes[-1]
    )


def _are_columns(row: Mapping[str, Any]) -> bool:
    """Return whether the only row is a table by columns: plain lists of one length."""
    lists = [one for one in row.values() if isinstance(one, list)]
    is_plain = not any(isinstance(item, list | dict) for one in lists for item in one)
    n_lengths = len({len(one) for one in lists})
    is_table = 1 < len(row) == len(lists) and n_lengths == 1
    return is_table and is_plain and TURNS not in row


def _table(source: Source, split: str, place: Place) -> Table:
    splits = load(source, plain=True)
    if split not in splits:
        names = [str(name) for name in splits]
        message = f"the dataset has no split {split!r}{suggestion(split, names)}"
        fix = f"dataset: {{path: {source.path}, split: {names[0]}}}" if names else ""
        raise TaskFileError([Problem(message, place, fix)])
    try:
        table = Table(splits[split])
        if source.path == "json" and len(table) == 1 and _are_columns(table[0]):
            message = "the file has a list for each column, not a list of rows"
            fix = f"write it as rows: [{{{dumps(table.columns[0])}: …}}, …]"
            raise TaskFileError([Problem(message, place, fix)])
        return table
    except EncodingError as error:
        raise not_utf8(source) from error
    except RowsError as error:
        raise TaskFileError([Problem(str(error), place)]) from error
