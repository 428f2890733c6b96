"""Index of the page: the list entries of all tasks, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from pytest_evals.reports.escape import tail
from pytest_evals.reports.html.chunks import Chunks
from pytest_evals.reports.html.documents import (
    LINE_IS_END,
    QUESTION,
    DocumentEntry,
)
from pytest_evals.reports.html.slices import Slices

_SAME = 12
"""Maximum length of a common prefix or suffix of list entries."""

Series = dict[str, list[float | None]]


def task_index(
    task: str, entries: Iterable[DocumentEntry], chunks: Chunks, n_others: int
) -> dict[str, Any]:
    """Return the list entries of a task, and add its documents to the chunks.

    Args:
        task: Name of the task.
        entries: Its documents.
        chunks: The documents of the page.
        n_others: Number of other runs.
    """
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
    """Append the numbers of a document to those of the ``n`` documents before it."""
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
