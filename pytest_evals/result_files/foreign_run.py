"""A run that another program has made, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.store.history import MemoryRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRun(MemoryRun):
    """A run of another program.

    Args:
        program: Its name, for messages.
        notes: What a reader of the verdict should know: which of several runs was read,
            how documents are identified, duplicates.
    """

    program: str
    notes: tuple[str, ...] = ()


def foreign_run(
    path: Path,
    program: str,
    documents: Mapping[str, Sequence[dict[str, Any]]],
    *,
    results: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> ForeignRun:
    """A run with the counts that every stored run has.

    Args:
        documents: Task → its rows, as :func:`~.documents.document_rows` makes them.
        results: Content of the program's results file, in the form of lm-eval's.

    Raises:
        OptionError: There are no documents.
    """
    if not any(documents.values()):
        raise OptionError(f"{path}: no documents in it")
    sizes = {
        task: len({row["doc_id"] for row in rows}) for task, rows in documents.items()
    }
    given = dict(results or {})
    counts = {task: {"total": n, "selected": n} for task, n in sizes.items()}
    return ForeignRun(
        path=path,
        results={**given, "counts": counts, "program": program},
        documents=documents,
        program=program,
        notes=tuple(dict.fromkeys(notes)),
    )
