"""``results.json`` while a run goes on: the tasks that have ended, so that a run which
is killed has left what it found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_evals.core.result import RunResult
from pytest_evals.reports.files.environment import environment
from pytest_evals.reports.files.jsonfile import results_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_evals.plugin.suite.runs import TaskRun
    from pytest_evals.run.run_writer import Samples

__all__ = ["UNFINISHED", "Interim"]

UNFINISHED = "the run has not ended, or was killed"
SHARE = 0.05
"""Most of the time that may go into writing results that will be written again."""


class Interim:
    """Writes what is known whenever a task ends."""

    def __init__(
        self,
        samples: Samples,
        runs: Mapping[str, TaskRun],
        summed_up: Callable[[Sequence[str]], RunResult],
    ) -> None:
        """Nothing has ended yet.

        Args:
            samples: The folder to write to.
            runs: The tasks of the session.
            summed_up: From names of tasks to their results.
        """
        self._samples = samples
        self._runs = runs
        self._summed_up = summed_up
        self._ended: dict[str, None] = {}
        self._not_before = 0.0

    def task_ended(self, run: TaskRun) -> None:
        """All documents of a task are done.

        The last task's results are written a moment later, with everything else.
        """
        self._ended[run.task.name] = None
        self._samples.flush()
        start = time.monotonic()
        if len(self._ended) >= len(self._runs) or start < self._not_before:
            return
        results = results_json(
            self._summed_up([*self._ended]),
            environment=environment(),
            task_hashes=self._samples.hashes.digests(),
            sample_files=self._samples.files,
        )
        self._samples.results(results, None)
        took_s = time.monotonic() - start
        self._not_before = time.monotonic() + took_s / SHARE
