"""What a script's run has to do with the disk: where it is written, what it is compared
with, and what it is saved as."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_evals.core.result import RunResult
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError, Place, StoreError
from pytest_evals.reports.files.environment import environment
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.run.baselines import stored_run
from pytest_evals.run.comparison import compared, failure_of, saved, setting_faults
from pytest_evals.run.run_writer import Samples
from pytest_evals.store.baselines import check_name, find_baseline
from pytest_evals.store.history import EarlierRun
from pytest_evals.store.writable import check_base

__all__ = ["Disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The folder of a call, and what it is asked to do there.

    Args:
        folder: What was given, if anything was.
        compare: Name of a baseline or folder of a run; empty for none.
        save: What this run shall be called as a baseline; empty for nothing.
        save_failed: Whether a failed run is saved too.
    """

    folder: Path | None
    compare: str
    save: str
    save_failed: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be done.

        Raises:
            OptionError: A name that is none, or nowhere to save.
        """
        if not self.save:
            if self.save_failed:
                raise OptionError(
                    "save_failed needs a baseline's name\n  fix: save='main'"
                )
            return
        try:
            check_name(self.save)
        except ValueError as error:
            raise OptionError(f"save={self.save!r}: {error}") from None
        if self.folder is None:
            raise OptionError(
                f"save={self.save!r} needs a folder to save it in\n"
                "  fix: evaluate(…, folder='.evals')"
            )

    @property
    def base(self) -> Path:
        """Where baselines are."""
        return (self.folder or Path(".evals")).absolute()

    @property
    def writes(self) -> bool:
        """Whether documents are written."""
        return self.folder is not None or bool(self.compare)

    def check(self) -> None:
        """Check that the run can be written, before anything is asked.

        Raises:
            StoreError: It cannot.
        """
        if self.folder is not None:
            check_base(self.base, "folder", stores=True, saves=bool(self.save))

    def place(self, closing: ExitStack) -> Path:
        """Where the run is written: its folder; or, since two runs are compared by
        what is on the disk, one that is gone afterwards."""
        if self.folder is not None or not self.compare:
            return self.base
        return Path(closing.enter_context(TemporaryDirectory()))

    def before(self, tasks: Sequence[Task], judge: str) -> EarlierRun | None:
        """What this run is compared with. A comparison that cannot be is refused before
        anything is asked.

        Raises:
            StoreError: There is nothing to compare with.
            OptionError: Other shots, another limit, version, judge or way to ask.
        """
        if not self.compare:
            return None
        run = find_baseline(self.base, self.compare, Path.cwd())
        faults = setting_faults(run, [(t, len(t.rows.ids())) for t in tasks], judge)
        if faults:
            told = "\n  ".join(faults)
            raise OptionError(
                f"compare={self.compare!r}: this run is not comparable\n  {told}"
            )
        return run

    def _lacks(self, name: str) -> bool:
        """Whether there is no baseline of this name."""
        return isinstance(stored_run(self.base, name, Path.cwd()), str)

    def kept(self, result: RunResult, samples: Samples) -> RunResult:
        """Write the run, compare it and save it, as far as that is wanted.

        Raises:
            StoreError: That cannot be done.
        """
        if not self.writes:
            return result
        _write(result, samples)
        path = samples.path
        if samples.error or path is None:
            raise StoreError(samples.error)
        if self.compare:
            run = find_baseline(self.base, self.compare, Path.cwd())
            result = replace(result, comparison=compared(self.compare, run, path))
        if self.save:
            try:
                saved(
                    self.base,
                    self.save,
                    path,
                    result,
                    failure="" if self.save_failed else failure_of(result, self._lacks),
                    consent="evaluate(…, save_failed=True)",
                )
            except StoreError as error:
                raise StoreError(f"{error}\n  the run itself is in {path}") from None
        return result


def _write(result: RunResult, samples: Samples) -> None:
    """Write what pytest writes."""
    samples.sort()  # early stopping has an order of its own
    nodes = {one.task.name: one.task.source for one in result.tasks}
    nodes |= {one.group.name: one.group.source for one in result.groups}
    results = results_json(
        result,
        environment=environment(),
        task_hashes=samples.hashes.digests(),
        sample_files=samples.files,
        node_ids={name: f"{Place(at.path)}::{name}" for name, at in nodes.items()},
    )
    samples.results(results, None)
