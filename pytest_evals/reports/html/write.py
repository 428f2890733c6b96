"""Write the HTML report of a stored run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.reports.html.baseline_documents import (
    BaselineDocuments,
    NoBaseline,
    PairedRun,
    StoredComparison,
)
from pytest_evals.reports.html.chunks import LARGEST, Chunks
from pytest_evals.reports.html.documents import distinguishable, documents_of
from pytest_evals.reports.html.history import history_of
from pytest_evals.reports.html.page import page_html
from pytest_evals.reports.html.prompt import fewshot_examples
from pytest_evals.reports.html.run_data import run_data
from pytest_evals.store.files import make_folder, read_json, replace_text
from pytest_evals.store.history import EarlierRun


def write_html(
    run: EarlierRun,
    path: Path,
    *,
    before: EarlierRun | None = None,
    comparison: Mapping[str, Any] | None = None,
    option: str = "--evals-html",
    largest: int = LARGEST,
) -> None:
    """Write the report of a run atomically.

    Args:
        run: The stored run.
        path: The file. Many rows are written to a folder of the same name next to it.
        before: The baseline, if available.
        comparison: The changes since then, as in ``comparison.json``; by default those
            in the run's folder.
        option: The option that sets the path, for messages.
        largest: Maximum characters of rows embedded in the page.

    Raises:
        StoreError: The run cannot be read or the report cannot be written; an existing
            report is left unchanged.
    """
    known = _told(run) if comparison is None else comparison
    index, chunks = _read(run, known, before)
    facts = run_data(run.results)
    facts |= {"comparison": known, "history": history_of(run)}
    make_folder(path.parent, option)
    if chunks.size <= largest:
        replace_text(path, page_html(facts, index, chunks.texts), option)
        _clear(path, keep="")
        return
    key = chunks.digest()
    index["beside"] = f"{_folder(path).name}/{key}-"
    _write_beside(path, key, chunks, option)
    replace_text(path, page_html(facts, index, ()), option)
    _clear(path, keep=key)


def _write_beside(path: Path, key: str, chunks: Chunks, option: str) -> None:
    """Write the rows next to the page, all of them or none."""
    folder = _folder(path)
    make_folder(folder, option)
    known = {*folder.glob(f"{key}-*.js")}
    try:
        for n, text in enumerate(chunks.texts):
            line = f'evalsRows({n},"{text}");\n'
            replace_text(folder / f"{key}-{n}.js", line, option)
    except StoreError:
        for one in {*folder.glob(f"{key}-*.js")} - known:
            with suppress(OSError):
                one.unlink()
        raise


def _told(run: EarlierRun) -> Mapping[str, Any] | None:
    """Return the comparison in the run's folder."""
    return read_json(run.path / "comparison.json") or None


def _read(
    run: EarlierRun, comparison: Mapping[str, Any] | None, before: EarlierRun | None
) -> tuple[dict[str, Any], Chunks]:
    """Return the list entries of each task, and the documents in the same order."""
    chunks, tasks = Chunks(), []
    for task in run.tasks:
        columns: dict[str, Any] = {
            name: [] for name in ("id", "question", "answer", "target", "flags")
        }
        states: list[str] = []
        values: dict[str, list[float | None]] = {}
        first = len(chunks.texts)
        was = _before(task, comparison, before)
        for one in documents_of(run, task, fewshot_examples(run.results, task), was):
            chunks.add(one.whole)
            for name, column in columns.items():
                column.append(getattr(one, name))
            for key in one.values:
                values.setdefault(key, [None] * len(states))
            for key, column in values.items():
                column.append(one.values.get(key))
            states.append(one.state)
        chunks.end()
        columns["question"] = distinguishable(columns["question"])
        tasks.append(
            {
                "task": task,
                "first": first,
                "sizes": chunks.sizes[first:],
                "states": "".join(states),
                "values": values,
                **columns,
            }
        )
    return {"tasks": tasks, "beside": ""}, chunks


def _before(
    task: str, comparison: Mapping[str, Any] | None, before: EarlierRun | None
) -> BaselineDocuments:
    """Return the baseline results of a task's documents."""
    if comparison is None:
        return NoBaseline()
    metrics = comparison.get("metrics") or ()
    if task not in {one.get("task") for one in metrics}:
        return NoBaseline()
    if before is not None:
        return PairedRun(before, task)
    worse, better = (
        [one for one in comparison.get(word) or () if one.get("task") == task]
        for word in ("worse", "better")
    )
    return StoredComparison(worse, better)


def _folder(path: Path) -> Path:
    """Return the folder of the rows that do not fit into the page."""
    return path.with_name(f"{path.stem}_rows")


def _clear(path: Path, keep: str) -> None:
    """Remove the rows of earlier reports; other files in the folder are kept."""
    folder = _folder(path)
    with suppress(OSError):
        for one in folder.glob("*-*.js"):
            key, _, number = one.stem.partition("-")
            ours = len(key) == 12 and number.isdecimal()
            if ours and (not keep or key != keep):
                one.unlink()
        folder.rmdir()
