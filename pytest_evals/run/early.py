"""``stop=``: in which order documents are asked, and which need not be any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError
from pytest_evals.run.early_stopping import Known, Reading, Stops, candidates
from pytest_evals.run.inference import Job
from pytest_evals.store.history import EarlierRun

__all__ = ["Early", "Stop", "StopMode"]

StopMode = Literal["off", "curtail", "auto"]
"""When a task is left, as for ``--evals-stop``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """What was asked for.

    Args:
        mode: When a task is left.
        error: Probability, over all gates, of a verdict that the full run would not
            give.
    """

    mode: StopMode
    error: float

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            OptionError: No such mode, or no probability.
        """
        if self.mode not in ("off", "curtail", "auto"):
            raise OptionError(f"stop={self.mode!r}: it is off, curtail or auto")
        if not 0 <= self.error <= 1:
            raise OptionError(
                f"stop_error={self.error!r}: a share from 0 to 1 is wanted"
            )


class _Entry(NamedTuple):
    """A task as :mod:`pytest_evals.run.early_stopping` wants it."""

    task: Task
    gates: Sequence[Gate]
    indices: Sequence[int]


class Early:
    """The documents of a run in the order in which they are asked."""

    def __init__(
        self, tasks: Sequence[Task], stop: Stop, find: Callable[[str, str], Reference]
    ) -> None:
        """All documents, in the order of the dataset.

        Args:
            tasks: The tasks, with their gates.
            stop: When they are left.
            find: A task in a baseline, beside the documents that are done.
        """
        self._tasks, self._stop = tasks, stop
        self.notes: list[str] = []
        """Why tasks are read to the end."""
        error = 0.0 if stop.mode == "curtail" else stop.error
        promise = 1 - stop.error
        self._stops = Stops(error=error, promise=promise, find=find, note=self._note)
        self._readings: dict[str, Reading] = {}

    def begin(self, known: Known, run: EarlierRun | None) -> None:
        """Watch the gates, if that is wanted.

        Args:
            known: What is known of the run.
            run: The stored run that it is compared with, if any.
        """
        if self._stop.mode == "off":
            return
        entries = [
            _Entry(task, task.gates, task.rows.indices()) for task in self._tasks
        ]
        found = [*candidates(entries, known, self._note)]
        self._stops.watch(found, run)
        self._readings = {r.name: r for r in found if self._stops.watches(r.name)}

    def _note(self, name: str, why: str) -> None:
        self.notes.append(f"{name} is read to the end: {why}")

    def jobs(self) -> list[Job]:
        """The documents; of a task that may stop in the order that was drawn."""
        return [Job(task, index) for task in self._tasks for index in self._of(task)]

    def _of(self, task: Task) -> Sequence[int]:
        reading = self._readings.get(task.name)
        return task.rows.indices() if reading is None else reading.positions

    def ends(self) -> Iterator[int]:
        """Numbers of documents before which a wave must be whole."""
        start = 0
        for task in self._tasks:
            n, reading = len(task.rows.indices()), self._readings.get(task.name)
            if reading is not None:
                yield from range(start, start + n, reading.size)
                yield start + n
            start += n

    def is_decided(self, name: str) -> bool:
        """Whether no further document of a task is wanted."""
        return name in self._stops.decided

    def arrived(self, name: str, record: Record) -> bool:
        """A document is done; whether its task is decided by it."""
        return self._stops.arrived(name, record)

    def verdict(self, gate: Gate, result: TaskResult | GroupResult) -> Verdict | None:
        """What was decided of a gate; ``None`` if it is to be judged as usual."""
        return self._stops.verdict(gate, result)
