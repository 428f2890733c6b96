"""The baselines of a session: what its documents were in stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_evals.core.reference import Reference
from pytest_evals.errors import StoreError
from pytest_evals.gates.pairing import Side, refer
from pytest_evals.reports.jsonfile import version_of
from pytest_evals.reports.model import judged_by
from pytest_evals.reports.samples import sample_of
from pytest_evals.reports.strict import strict
from pytest_evals.store.baselines import find_baseline
from pytest_evals.store.history import EarlierRun

if TYPE_CHECKING:
    from pytest_evals.core.record import Record
    from pytest_evals.core.task import Task
    from pytest_evals.plugin.options import Options
    from pytest_evals.plugin.runs import TaskRun
    from pytest_evals.plugin.session import EvalSession

__all__ = ["Baseline", "References", "settings_of"]

HASH_CHARACTERS = 64
"""Of a document's hashes, the first is that of its content."""


class Baseline:
    """What documents were in a baseline."""

    def __init__(self, run: EarlierRun) -> None:
        """Nothing is read yet."""
        self.run = run
        self._right: dict[str, dict[str, bool]] = {}

    def word(self, record: Record, task: Task) -> str:
        """What a document that is wrong now is called."""
        key = sample_of(record, task).hashes[:HASH_CHARACTERS]
        return "regressed" if self.was_right(task.name, key) else "wrong"

    def was_right(self, task: str, content: str) -> bool:
        """Whether a document was answered right; of equal ones, whether all were.

        Args:
            task: Name of its task.
            content: Hash of its row.
        """
        if task not in self._right:
            found: dict[str, bool] = {}
            for row in self.run.rows(task):
                key, right = str(row.get("doc_hash")), row.get("correct") is True
                found[key] = found.get(key, True) and right
            self._right[task] = found
        return self._right[task].get(content, False)


class References:
    """The tasks of stored runs beside those of this one, for gates."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing is read yet."""
        self._session = session
        self._runs: dict[str, EarlierRun | str] = {}
        self._found: dict[tuple[str, str, int], Reference] = {}

    def find(self, baseline: str, task: str) -> Reference:
        """A task in a baseline; asked for when its documents are done."""
        key = (baseline, task, self._n_records(task))
        if key not in self._found:
            self._found[key] = self._read(baseline, task)
        return self._found[key]

    def _read(self, name: str, task: str) -> Reference:
        is_replaced = self._session.options.save == name
        run = self.run(name)
        if len(self._session.samples.hashes.of(task)) < self._n_records(task):
            run = "baselines are known to the controller of pytest-xdist only"
        if isinstance(run, str):
            return Reference(baseline=name, fault=run, is_replaced=is_replaced)
        try:
            rows = {one: list(run.all_rows(one)) for one in run.tasks if one == task}
        except StoreError as error:
            return Reference(baseline=name, fault=str(error), is_replaced=is_replaced)
        others: dict[str, list[Any]] = {one: [] for one in run.tasks}
        before = Side(results=run.results, rows={**others, **rows})
        found = refer(name, task, before, self._now(task))
        return Reference(
            baseline=name,
            values=found.values,
            fault=found.fault,
            is_replaced=is_replaced,
            notes=found.notes,
        )

    def _n_records(self, task: str) -> int:
        return len(self._session.runs[task].records)

    def run(self, name: str) -> EarlierRun | str:
        """The stored run of a name; or why there is none, with what to do."""
        if name not in self._runs:
            session = self._session
            here = session.config.invocation_params.dir
            try:
                self._runs[name] = find_baseline(session.options.dir, name, here)
            except StoreError as error:
                why = str(error).removesuffix("; save one with --evals-save")
                self._runs[name] = f"{why}; a run with --evals-save={name} makes it"
        return self._runs[name]

    def _now(self, task: str) -> Side:
        """This run's side of a task, from what is in memory."""
        session = self._session
        run = session.runs[task]
        hashes = session.samples.hashes.of(task)
        rows = [
            {
                "doc_id": record.index,
                "id": record.doc.id,
                "doc_hash": hashes[record.index][0],
                "prompt_hash": hashes[record.index][1],
                "target_hash": hashes[record.index][2],
            }
            for _, record in sorted(run.records.items())
        ]
        results = {
            **settings_of([run], session.options),
            "model_info": dict(session.models.info),
        }
        return Side(results=results, rows={task: rows})


def settings_of(runs: Sequence[TaskRun], options: Options) -> dict[str, Any]:
    """What ``results.json`` will say of these tasks' settings, as far as two runs must
    have them in common."""
    return {
        "n-shot": {run.name: run.task.n_shots for run in runs},
        "counts": {run.name: {"selected": len(run.ids)} for run in runs},
        "versions": {run.name: version_of(run.task) for run in runs},
        "configs": {run.name: strict({**run.task.config}, []) for run in runs},
        "judged": {run.name: judged_by(run.task, options.judge) for run in runs},
    }
