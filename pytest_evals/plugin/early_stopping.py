"""``--evals-stop``: stop tasks whose gates are decided.

:mod:`pytest_evals.run.early_stopping` decides. This module sorts the items and skips
those that are no longer needed. With pytest-xdist each wave is assigned to all
workers, the controller decides, and workers find in a file which tasks have stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_evals.plugin.models.session_models import DocumentItem
from pytest_evals.plugin.settings.process import WorkerAssignment
from pytest_evals.plugin.workers.sharding import shard_start
from pytest_evals.run.batches import Job
from pytest_evals.run.early_stopping import EarlyStopping
from pytest_evals.run.run import Run

LOOK_S = 0.2  # seconds after which a worker checks again which tasks have stopped


class StoppableItems:
    """Sorts and skips items."""

    def __init__(
        self,
        run: Run,
        assignment: WorkerAssignment | None,
        place: int,
        owns: Callable[[pytest.Item], bool],
    ) -> None:
        """Create it for a run that may stop early. ``place``: of its model;
        ``owns``: whether an item is a document of that model."""
        assert run.early_stopping is not None
        self._name, self._owns = f"decided-{place}", owns
        self._run, self._orders = run, assignment
        self._early: EarlyStopping = run.early_stopping
        self._waves: dict[Job, tuple[str, int]] = {}
        self._folder: Path | None = None
        self._looked = 0.0

    def arrange(self, items: list[pytest.Item]) -> None:
        """Sort the documents of tasks that may stop."""
        places: dict[str, list[int]] = {}
        for place, item in enumerate(items):
            job = _job(item)
            if job is not None and self._owns(item):
                places.setdefault(job.task.name, []).append(place)
        for task in self._early.candidates():
            slots = places.get(task.name, [])
            if len(slots) != len(task.order):
                continue  # its gates are skipped, since documents were deselected
            found = [(job, items[n]) for n in slots if (job := _job(items[n]))]
            found.sort(key=lambda one: task.ranks[one[0].index])
            for rank, (place, (job, item)) in enumerate(zip(slots, found, strict=True)):
                items[place] = item
                self._waves[job] = (job.task.name, rank // task.size)

    def wave_of(self, job: Job) -> tuple[str, int] | None:
        """Return the wave of a document; ``None`` if its task does not stop early."""
        if self._orders is None and not self._early.watched(job.task.name):
            return None
        return self._waves.get(job)

    def waves(self) -> dict[str, int]:
        """Return the start of the node ids of each task that may stop, with the number
        of documents of its waves."""
        tasks = self._run.suite.tasks
        candidates = self._early.candidates()
        return {shard_start(tasks[one.name]): one.size for one in candidates}

    def start(self, ids: Sequence[str], folder: Path | None = None) -> None:
        """Watch the gates, in the process that judges them. ``folder``: of the list
        of stopped tasks, which workers read."""
        self._folder = folder
        places = {nodeid: place for place, nodeid in enumerate(ids)}
        watched = []
        for task in self._early.candidates():
            run = self._run.suite.tasks[task.name]
            names = run.document_ids()
            order = [places.get(names[i], -1) for i in task.order]
            if -1 in order:
                continue
            if order != sorted(order):
                why = "another plugin has changed the order of its documents"
                self._early.note(task.name, why)
                continue
            watched.append(task)
        self._early.watch(watched)

    def publish(self) -> None:
        """Write the stopped tasks for workers."""
        if self._folder is not None:
            draft = self._folder / f"{self._name}.tmp"
            draft.write_text("\n".join(sorted(self._early.decided)), encoding="utf-8")
            draft.rename(self._folder / self._name)

    def skip_if_decided(self, item: DocumentItem) -> None:
        """Skip a document whose task has stopped."""
        if self._orders is not None:
            self._look(Path(self._orders.stop).parent / self._name)
        if item.job.task.name in self._early.decided:
            item.word = "stopped"
            pytest.skip("the gates of its task are decided")

    def _look(self, path: Path) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        if not path.is_file():
            return
        for name in path.read_text(encoding="utf-8").splitlines():
            if name not in self._early.decided:
                self._early.decided.add(name)
                self._run.inference.drop(name)


def _job(item: pytest.Item) -> Job | None:
    job = getattr(item, "job", None)
    return job if isinstance(job, Job) else None
