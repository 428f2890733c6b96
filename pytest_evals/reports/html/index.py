"""Index of the page: the list entries of all tasks, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from pytest_evals.reports.escape import cut, tail
from pytest_evals.reports.html.chunks import Chunks
from pytest_evals.reports.html.documents import LINE_IS_END, QUESTION, DocumentEntry

_SAME = 12
"""Maximum length of a common prefix or suffix of list entries."""
_MOST_VALUES = 50
"""A column with more values identifies documents rather than kinds of them."""
_LONGEST = 60
"""Maximum characters of a value."""

Series = dict[str, list[float | None]]


def task_index(
    task: str, entries: Iterable[DocumentEntry], chunks: Chunks, n_others: int
) -> dict[str, Any]:
    """Return the list entries of a task, and add its documents to the chunks."""
    names = ("id", "question", "answer", "target", "flags")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    states: list[str] = []
    values: Series = {}
    numbers: Series = {}
    others: list[list[tuple[str, str] | None]] = [[] for _ in range(n_others)]
    slices = Slices()
    first = len(chunks.texts)
    for one in entries:
        for name, column in columns.items():
            column.append(getattr(one, name))
        _append(values, one.values, len(states))
        _append(numbers, one.numbers, len(states))
        for run, found in zip(others, one.others, strict=True):
            run.append(found)
        slices.add(one.doc)
        states.append(one.state)
        chunks.add(one.whole)
    chunks.end()
    columns["question"] = distinguishable(columns["question"], columns["flags"])
    return {
        "task": task,
        "first": first,
        "sizes": chunks.sizes[first:],
        "states": "".join(states),
        "values": values,
        "numbers": numbers,
        "slices": slices.columns(),
        "runs": [_run(found) for found in others],
        **columns,
    }


def distinguishable(lines: Sequence[str], flags: Sequence[int] = ()) -> list[str]:
    """Return list entries without the common prefix of questions, and without the
    common suffix of ends of prompts, so that the differing part fits."""
    if len(lines) < 2:
        return [tail(line, QUESTION) for line in lines]
    if flags and all(flag & LINE_IS_END for flag in flags):
        n = len(_common([line[::-1] for line in lines]))
        if n >= _SAME:
            lines = [f"{line[:-n].rstrip()} …" for line in lines]
    else:
        n = _common(lines).rfind(" ") + 1
        if n >= _SAME:
            lines = [f"…{line[n - 1 :]}" for line in lines]
    return [tail(line, QUESTION) for line in lines]


def _common(lines: Sequence[str]) -> str:
    ends = zip(min(lines), max(lines), strict=False)
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], ends))


def _append(series: Series, found: Mapping[str, float], n: int) -> None:
    for key in found:
        series.setdefault(key, [None] * n)
    for key, column in series.items():
        column.append(found.get(key))


def _run(found: Sequence[tuple[str, str] | None]) -> dict[str, Any]:
    """Return states and answers of another run; a space where it has no document."""
    return {
        "states": "".join(one[0] if one else " " for one in found),
        "answers": [one[1] if one else "" for one in found],
    }


class Slices:
    """Columns with few values, such as a subject: strings, integers, booleans and lists
    of them, of a row or of a mapping in it."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, int]] = {}
        self._at: dict[str, list[list[int] | None]] = {}
        self._refused: set[str] = set()
        self._n = 0

    def add(self, doc: Any) -> None:
        """Add the row of the next document."""
        for name, values in _cells(doc):
            if name not in self._refused:
                self._add(name, values)
        self._n += 1

    def _add(self, name: str, values: list[str] | None) -> None:
        known = self._columns.setdefault(name, {})
        fits = values is not None and all(len(one) <= _LONGEST for one in values)
        if values is not None and fits:
            found = [known.setdefault(one, len(known)) for one in values]
            column = self._at.setdefault(name, [])
            column += [None] * (self._n - len(column))
            column.append(found)
        if not fits or len(known) > _MOST_VALUES:
            self._refused.add(name)
            del self._columns[name]
            self._at.pop(name, None)

    def columns(self) -> dict[str, dict[str, Any]]:
        """Return each column: its ``values`` and, for each document, the positions of
        its own ones; a single one is a number."""
        return {
            name: {
                "values": [cut(one, _LONGEST) for one in known],
                "at": [*map(_short, self._at[name])]
                + [None] * (self._n - len(self._at[name])),
            }
            for name, known in self._columns.items()
            if 2 <= len(known) <= self._n / 2 and _differ(self._at[name])
        }


def _differ(found: list[list[int] | None]) -> bool:
    """Return whether documents have different values; a list of choices is the same for
    all of them."""
    return any(one != found[0] for one in found)


def _short(found: list[int] | None) -> int | list[int] | None:
    return found[0] if found and len(found) == 1 else found


def _cells(doc: Any, prefix: str = "") -> Iterator[tuple[str, list[str] | None]]:
    """Yield names and values; ``None`` for a value that is not a label."""
    if not isinstance(doc, Mapping):
        return
    for key, value in doc.items():
        if isinstance(value, Mapping) and not prefix:
            yield from _cells(value, f"{key}.")
        elif value is not None:
            several = value if isinstance(value, list) else [value]
            labels = [_label(one) for one in several]
            known = [one for one in labels if one is not None]
            yield f"{prefix}{key}", known if len(known) == len(labels) else None


def _label(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int) else None
