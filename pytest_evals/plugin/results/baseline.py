"""The baselines of a session: what its documents were in stored runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evals.core.reference import Reference
from pytest_evals.gates.pairing import Side, identities
from pytest_evals.reports.files.hashes import TaskHashes
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.baselines import reference, settings_of, side_of, stored_run
from pytest_evals.store.history import EarlierRun

if TYPE_CHECKING:
    from pytest_evals.core.record import Record
    from pytest_evals.core.task import Task
    from pytest_evals.plugin.session import EvalSession

__all__ = ["Baseline", "References"]


class Baseline:
    """What documents were in a baseline."""

    def __init__(self, run: EarlierRun) -> None:
        """Nothing is read yet."""
        self.run = run
        self._right: dict[str, dict[Hashable, bool]] = {}

    def word(self, record: Record, task: Task) -> str:
        """What a document that is wrong now is called."""
        hashes = TaskHashes()
        hashes.add(task.name, 0, sample_of(record, task))
        is_right = self.was_right(task.name, hashes.of(task.name)[0])
        return "regressed" if is_right else "wrong"

    def was_right(self, task: str, row: Mapping[str, Any]) -> bool:
        """Whether a document was answered correctly; of equal ones, whether all were.

        Args:
            task: Name of its task.
            row: Its hashes.
        """
        if task not in self._right:
            found: dict[Hashable, bool] = {}
            for old in self.run.rows(task):
                for key in identities(old):
                    right = old.get("correct") is True
                    found[key] = found.get(key, True) and right
            self._right[task] = found
        known = self._right[task]
        return next((known[key] for key in identities(row) if key in known), False)


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
        now = self._now(task) if not isinstance(run, str) else Side(results={}, rows={})
        return reference(name, run, task, now, is_replaced=is_replaced)

    def _n_records(self, task: str) -> int:
        return len(self._session.runs[task].records)

    def run(self, name: str) -> EarlierRun | str:
        """The stored run of a name, or the answers of that model; or why there is none,
        with what to do."""
        answered = self._session.judging.reference_runs.get(name)
        if answered is not None:
            return answered
        if name not in self._runs:
            here = self._session.config.invocation_params.dir
            self._runs[name] = stored_run(self._session.options.dir, name, here)
        return self._runs[name]

    def _now(self, task: str) -> Side:
        """This run's side of a task, from what is in memory."""
        session = self._session
        run = session.runs[task]
        records = [record for _, record in sorted(run.records.items())]
        settings = settings_of([(run.task, len(run.ids))], session.options.judge)
        settings["model_info"] = dict(session.models.info)
        return side_of(run.task, records, session.samples.hashes, settings)
