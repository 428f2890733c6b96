"""``--evals-only``: run documents that were wrong, errored, missing or regressed in the
last run of this model.

Every process reads the same files and chooses alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.node_names import document_start, node_label
from pytest_evals.errors import StoreError
from pytest_evals.masking.values import masked_text
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.reports.escape import near
from pytest_evals.reports.strict import strict
from pytest_evals.store.history import EarlierRun, last_run, read_run

if TYPE_CHECKING:
    from pytest_evals.core.task import Task
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.plugin.settings.option_table import Options

Row = Mapping[str, Any]


class OnlyMode:
    """Selects the documents of a model by an earlier run, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._lines: list[str] = []

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect all other documents. Gates stay, and are skipped unless all of their
        documents run. Without a document nothing runs."""
        options = self._session.options
        assignment = self._session.assignment
        if assignment is None:
            run = run_to_select_from(options)
        else:
            selects = assignment.selects[self._session.all.index(self._session)]
            run = read_run(Path(selects)) if selects else None
        owned = [item for item in items if self._session.owns(item)]
        documents = [item for item in owned if isinstance(item, DocItem)]
        run = self._session.suite.named(run) if run else None
        kept = self._chosen(documents, run)
        dropped = [
            item
            for item in owned
            if (isinstance(item, DocItem) and item.nodeid not in kept)
            or (isinstance(item, GateItem) and not kept)
        ]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            gone = set(map(id, dropped))
            items[:] = [item for item in items if id(item) not in gone]
        words = " or ".join(options.only)
        where = "; no earlier run of this model is stored; run without --evals-only"
        if run:
            where = f" in {near(run.path, config.invocation_params.dir)}"
        n, total = len(kept), len(documents)
        of = f" of {self._session.model}" if self._session.model else ""
        self._lines.insert(0, f"evals: {n} of {total} documents{of}: {words}{where}")

    def pytest_report_collectionfinish(self) -> list[str]:
        """Show which documents were selected."""
        return self._lines

    def _chosen(self, documents: Sequence[DocItem], run: EarlierRun | None) -> set[str]:
        by_task: dict[str, list[DocItem]] = {}
        for item in documents:
            by_task.setdefault(item.job.task.name, []).append(item)
        chosen: set[str] = set()
        for items in by_task.values():
            task = items[0].job.task
            rows = _Rows(run.rows(task.name) if run else ())
            if run and rows.by_index and _has_changed(task, run.results):
                self._lines.append(
                    f"evals: warning: {task.name} has changed since that run; its "
                    "documents are selected by their ids"
                )
            for item in items:
                if self._wants(task, rows.of(item)):
                    chosen.add(item.nodeid)
        return chosen

    def _wants(self, task: Task, row: Row | None) -> bool:
        words, baseline = self._session.options.only, self._session.run.compared
        if any(_WANTS[word](row) for word in words if word in _WANTS):
            return True
        if "regressed" not in words or baseline is None or not _is_wrong(row):
            return False
        return baseline.was_correct(task.name, row or {})


def run_to_select_from(options: Options, model: str = "") -> EarlierRun | None:
    """The last run of a model, by default of the session's only one, if there is
    one."""
    model = model or options.model
    try:
        return last_run(options.dir, masked_text(model) if model else "")
    except StoreError as error:
        raise pytest.UsageError(f"--evals-only: {error}") from None


class _Rows:
    """The samples of a task in an earlier run."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.by_index, self._by_id = dict[int, Row](), dict[str, Row]()
        for row in rows:
            self.by_index[row["doc_id"]] = self._by_id[row["id"]] = row

    def of(self, item: DocItem) -> Row | None:
        """Return the row of the document with the same id. A document that could not be
        built has no id and is found by its index."""
        label = node_label(item.parent.evals.model, item.job.task.variant)
        name = item.name[item.name.index("[") :]
        id_ = name.removeprefix(document_start("", label))[:-1]
        here = self.by_index.get(item.job.index)
        return here if here and here["id"] in ("", id_) else self._by_id.get(id_)


def _is_wrong(row: Row | None) -> bool:
    return row is not None and row.get("correct") is False


_WANTS: Mapping[str, Callable[[Row | None], bool]] = {
    "wrong": _is_wrong,
    "error": lambda row: row is not None and row.get("status") != "scored",
    "missing": lambda row: row is None,
}


def _has_changed(task: Task, results: Mapping[str, Any]) -> bool:
    known = results.get("configs", {}).get(task.name)
    now = json.loads(json.dumps(strict(dict(task.config), [])))
    parts = [{**one, "metadata": None} for one in (known or {}, now)]
    return parts[0] != parts[1]
