"""``--evals-stop``: tasks whose gates are decided are not read to the end.

What is decided, and when, is :mod:`pytest_evals.run.early_stopping`. Here items get
their order, and those that are not needed any more are skipped. With pytest-xdist each
wave is dealt to all workers, the controller looks, and workers find in a file what they
need not run any more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.record import Record
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.plugin.nodes import DocItem
from pytest_evals.plugin.results.baseline import References
from pytest_evals.reports.files.environment import commit_of
from pytest_evals.run.early_stopping import Known, Reading, Stops, candidates
from pytest_evals.run.inference import Job

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

__all__ = ["Stopping"]

_NAME = "decided"
LOOK_S = 0.2
"""Seconds between two looks of a worker at what was decided."""


class Stopping:
    """Which tasks may stop, in which order they are read, and what was decided."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing is collected yet."""
        self._session = session
        options = session.options
        self._stops = Stops(
            error=0.0 if options.stop == "curtail" else options.stop_error,
            promise=1 - options.stop_error,
            find=session.judging.find,
            note=self._note,
        )
        self._found: list[Reading] | None = None
        self._waves: dict[Job, tuple[str, int]] = {}
        self._decided = self._stops.decided
        self._folder: Path | None = None
        self._looked = 0.0
        self.notes: list[str] = []
        """Why tasks are read to the end."""

    @property
    def shares(self) -> Mapping[str, float | None]:
        """Task → share of its documents that will be read, by the baseline's scores."""
        return self._stops.shares

    def arrange(self, items: list[pytest.Item]) -> None:
        """Bring the documents of tasks that may stop into their order.

        Args:
            items: All items of the session; the list changes.
        """
        places: dict[str, list[int]] = {}
        for place, item in enumerate(items):
            if isinstance(item, DocItem):
                places.setdefault(item.job.task.name, []).append(place)
        for reading in self._candidates():
            own = places.get(reading.name, [])
            if len(own) != len(reading.order):
                continue  # its gates are skipped, since documents were deselected
            found = [items[place] for place in own]
            found.sort(key=lambda item: reading.ranks[_index(item)])
            for rank, (place, item) in enumerate(zip(own, found, strict=True)):
                items[place] = item
                assert isinstance(item, DocItem)
                wave = (item.job.task.name, rank // reading.size)
                self._waves[item.job] = wave

    def wave_of(self, job: Job) -> tuple[str, int] | None:
        """The wave of a document; ``None`` if its task is read to the end, as far as
        this process knows."""
        knows = self._session.orders is None
        if knows and not self._stops.watches(job.task.name):
            return None
        return self._waves.get(job)

    def waves(self) -> dict[str, int]:
        """Node id of a task, up to the bracket, to the documents of its waves."""
        runs = self._session.runs
        return {f"{runs[r.name].nodeid}[": r.size for r in self._candidates()}

    def start(self, ids: Sequence[str], folder: Path | None = None) -> None:
        """Watch the gates, in the process that judges them.

        Args:
            ids: Node ids of all items in the order they run.
            folder: Where workers look for what was decided.
        """
        self._folder = folder
        places = {nodeid: place for place, nodeid in enumerate(ids)}
        readings = []
        for reading in self._candidates():
            run = self._session.runs[reading.name]
            own = [places.get(f"{run.nodeid}[{run.ids[i]}]", -1) for i in reading.order]
            if -1 in own:
                continue
            if own != sorted(own):
                why = "another plugin has changed the order of its documents"
                self._note(reading.name, why)
                continue
            readings.append(reading)
        baseline = self._session.baseline
        self._stops.watch(readings, baseline.run if baseline is not None else None)

    def _candidates(self) -> list[Reading]:
        """Tasks that may stop, by what every process knows once all is collected."""
        if self._found is None:
            session = self._session
            known = Known(
                gates=[gate for run in session.known.all() for gate in run.gates],
                groups=[run.group for run in session.known.groups.values()],
                commit=commit_of(session.config.rootpath),
                seed=session.options.order_seed,
                stored=References(session).run,
            )
            self._found = [*candidates(session.runs.values(), known, self._note)]
        return self._found

    def _note(self, name: str, why: str) -> None:
        if self._session.orders is None:
            self.notes.append(f"{name} is read to the end: {why}")

    def arrived(self, name: str, record: Record) -> None:
        """A document of a task is done."""
        if not self._stops.arrived(name, record):
            return
        self._session.models.drop(name)
        if self._folder is not None:
            draft = self._folder / f"{_NAME}.tmp"
            draft.write_text("\n".join(sorted(self._decided)), encoding="utf-8")
            draft.rename(self._folder / _NAME)

    def skip_if_decided(self, item: DocItem) -> None:
        """Skip a document that can change no verdict any more."""
        if self._session.orders is not None:
            self._look(Path(self._session.orders.stop).parent / _NAME)
        if item.job.task.name in self._decided:
            item.word = "stopped"
            pytest.skip("the gates of its task are decided")

    def _look(self, path: Path) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        if not path.is_file():
            return
        for name in path.read_text(encoding="utf-8").splitlines():
            if name not in self._decided:
                self._decided.add(name)
                self._session.models.drop(name)

    def verdict(self, gate: Gate, result: TaskResult | GroupResult) -> Verdict | None:
        """What was decided of a gate; ``None`` if it is to be judged as usual."""
        return self._stops.verdict(gate, result)


def _index(item: pytest.Item) -> int:
    assert isinstance(item, DocItem)
    return item.job.index
