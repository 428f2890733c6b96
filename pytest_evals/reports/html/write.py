"""Write the HTML report of a stored run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.reports.html.baseline_documents import (
    Before,
    no_baseline,
    paired_run,
    stored_comparison,
)
from pytest_evals.reports.html.chunks import LARGEST, Chunks
from pytest_evals.reports.html.documents import documents_of
from pytest_evals.reports.html.history import history_of, runs_before
from pytest_evals.reports.html.index import task_index
from pytest_evals.reports.html.other_runs import (
    NO_OTHERS,
    OtherRuns,
    others_data,
    related_runs,
)
from pytest_evals.reports.html.page import page_html
from pytest_evals.reports.html.prompt import fewshot_examples
from pytest_evals.reports.html.run_data import run_data
from pytest_evals.reports.html.sections import section
from pytest_evals.reports.html.thumbnails import Thumbnails
from pytest_evals.store.files import make_folder, read_json, replace_text
from pytest_evals.store.history import EarlierRun, with_names_of


def write_html(
    run: EarlierRun,
    path: Path,
    *,
    others: OtherRuns = NO_OTHERS,
    option: str = "--evals-html",
    largest: int = LARGEST,
) -> None:
    """Write the report of a run atomically.

    Raises:
        StoreError: The run cannot be read or the report cannot be written; an existing
            report is left unchanged.
    """
    ids = section(run.results, "node_ids")
    earlier = [with_names_of(one, ids) for one in runs_before(run)]
    others = _complete(run, earlier, others.with_names_of(ids))
    index, chunks = _read(run, others)
    facts = run_data(run.results) | others_data(others)
    facts["history"] = history_of(run, earlier)
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


def _complete(
    run: EarlierRun, earlier: Sequence[EarlierRun], others: OtherRuns
) -> OtherRuns:
    comparison, runs = others.comparison, others.runs
    if comparison is None:
        comparison = read_json(run.path / "comparison.json") or None
    if runs is None:
        runs = related_runs(run, earlier, others.baseline)
    return OtherRuns(others.baseline, comparison, runs)


def _read(run: EarlierRun, others: OtherRuns) -> tuple[dict[str, Any], Chunks]:
    """Return the list entries of each task, and the documents in the same order."""
    chunks, tasks = Chunks(), []
    runs = others.runs or ()
    thumbnails = Thumbnails([Path.cwd(), *run.path.resolve().parents[2:3]])
    for task in run.tasks:
        documents = documents_of(
            run,
            task,
            fewshot_examples(run.results, task),
            _before(task, others),
            [paired_run(one, task) for one in runs],
            thumbnails,
        )
        tasks.append(task_index(task, documents, chunks, 1 + len(runs)))
    return {"tasks": tasks, "beside": ""}, chunks


def _before(task: str, others: OtherRuns) -> Before:
    before, comparison = others.baseline, others.comparison
    if comparison is None:
        return no_baseline
    metrics = comparison.get("metrics") or ()
    if task not in {one.get("task") for one in metrics}:
        return no_baseline
    if before is not None:
        return paired_run(before, task)
    worse, better = (
        [one for one in comparison.get(word) or () if one.get("task") == task]
        for word in ("worse", "better")
    )
    return stored_comparison(worse, better)


def _folder(path: Path) -> Path:
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
