"""The state that all models of a pytest session share, with its warnings and repeated
scores, and its outcome: why it fails although its tests passed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from pytest_evals.core.record import Record
from pytest_evals.core.task import Group, Task
from pytest_evals.models.http.spend_cap import LEDGER, Ledger, RunCaps
from pytest_evals.plugin.settings.options import OPTIONS, suite_root
from pytest_evals.plugin.settings.process import ALONE, assignment_of, is_distributed
from pytest_evals.plugin.suite.task_index import task_index_of
from pytest_evals.run.run import Run
from pytest_evals.run.selection import Selection
from pytest_evals.run.shared_prompts import PromptCache
from pytest_evals.sandbox.session import end_sandbox, set_sandbox


class SessionOutcome:
    """The reasons for which a session fails, and its last line."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.line = ""
        """Gates that were not judged, for the last line; empty if all were."""

    def fail(
        self, session: pytest.Session, reason: str, *, overrides: bool = False
    ) -> None:
        """Let the session fail. ``overrides``: even if it ends with another error."""
        self.reasons.append(reason)
        if overrides or session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def write(self, terminal: pytest.TerminalReporter) -> None:
        """Write the last line."""
        if self.line:
            fails = any(reason == self.line for reason in self.reasons)
            colours = {"red" if fails else "yellow": True, "bold": True}
            terminal.write_line(f"evals: {self.line}", **colours)


OfModel = TypeVar("OfModel")
"""The state of one model, :class:`~pytest_evals.plugin.session.EvalSession`."""


class SharedState(Generic[OfModel]):
    """The state of a session that is the same for all of its models."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options, and begin to count for spend caps."""
        self.config = config
        self.options = config.stash[OPTIONS]
        self.sessions: list[OfModel] = []  # the states of all models, in their order
        self.assignment = assignment_of(config)
        self.selection = Selection(self.options.tasks, chosen=is_distributed(config))
        self.task_index = task_index_of(config)
        self.loading: OfModel | None = None  # the state whose tasks were read last
        self.tasks: dict[Path, Sequence[Task | Group]] = {}
        """The tasks of files that several models share."""
        self.prompts = PromptCache()  # the documents that several models get
        self.failed_files: set[Path] = set()
        """Files that cannot be read: the first model reports them."""
        self.folders: dict[Path, pytest.Directory] = {}
        """Folders of files that were reached through groups, if pytest has not
        collected them itself."""
        self.collected_gates: frozenset[str] = frozenset()
        """Node ids of gates, before any deselection; empty if unknown."""
        self.has_result_tests = False
        """Whether tests that use the results are selected; known after collection."""
        self.locked: set[str] = set()  # tasks that were compared with ``evals.lock``
        self.outcome = SessionOutcome()
        self.repeats = RerunScores()
        # Count for spend caps from 0; workers share a file with their controller, which
        # has begun it.
        caps = RunCaps(self.options.max_requests, self.options.max_cost)
        if self.assignment is not None:
            Ledger.begin_run(str(Path(self.assignment.stop).with_name(LEDGER)), caps)
        elif not is_distributed(config):
            Ledger.begin_run(caps=caps)
            config.add_cleanup(Ledger.begin_run)
        set_sandbox(self.options.sandbox, consents=self.options.allow_unsafe_code)
        config.add_cleanup(end_sandbox)


Scores = dict[tuple[str, str], dict[int, object]]
"""Task and key of a metric → position of a document → its value."""


_COUNTS = ("n_documents", "n_sampled", "n_same")


@dataclass(slots=True)
class RerunScores:
    """Scores and counts of repeated runs of the same documents."""

    n_first: int = 0  # documents that this process has run, once
    n_documents: int = 0  # documents that were repeated, here and in workers
    runs: list[Scores] = field(default_factory=list)  # scores of each further run
    n_sampled: int = 0  # sampled responses that can be compared with the previous run
    n_same: int = 0  # those that equal the response of the previous run

    def as_json(self) -> dict[str, Any]:
        """Return the same as JSON values, with numeric scores only."""
        runs = [
            [[*key, _numbers(values)] for key, values in run.items()]
            for run in self.runs
        ]
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {**counts, "runs": runs}

    def add(self, report: dict[str, Any]) -> None:
        """Add the :meth:`as_json` of a worker."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + report[name])
        self.runs += [{} for _ in report["runs"][len(self.runs) :]]
        for scores, run in zip(self.runs, report["runs"], strict=True):
            for task, key, values in run:
                mine = scores.setdefault((task, key), {})
                mine |= {int(at): value for at, value in values.items()}


def _numbers(values: dict[int, object]) -> dict[int, object]:
    return {at: v for at, v in values.items() if isinstance(v, int | float)}


def scores_of(records: Sequence[Record]) -> Scores:
    """Return the scores of documents without errors that are not excluded."""
    found: Scores = {}
    for record in records:
        for score in record.scores:
            if not (record.error or record.excluded or score.unscored):
                key = record.task, score.key
                found.setdefault(key, {})[record.index] = score.value
    return found


class SessionWarnings:
    """Collects warnings, and remembers which were reported."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self._config, self._run = config, run
        self._reported: set[str] = set()
        self.of_workers: dict[int, list[str]] = {}  # slot of a worker → its warnings
        self.unsendable: list[str] = []
        """Tasks with documents that cannot be sent, known before any is."""

    def new(self) -> list[str]:
        """Return the warnings that were not reported yet."""
        fresh = [text for text in self.all() if text not in self._reported]
        self._reported.update(fresh)
        return fresh

    def of_documents(self) -> list[str]:
        """Return the warnings about documents and their answers in this process and its
        workers."""
        from pytest_evals.prompts.document_warnings import merge_warnings

        of_inference = self._run.inference.warnings.texts()
        return merge_warnings(
            [*of_inference, *self.unsendable, *self._texts_of_workers()]
        )

    def _texts_of_workers(self) -> Iterator[str]:
        for _, texts in sorted(self.of_workers.items()):
            yield from texts

    def all(self) -> list[str]:
        """Return all warnings that are known so far."""
        config = self._config
        options = config.stash[OPTIONS]
        texts = [*self._run.warnings(plans=options.plan), *self.unsendable]
        if self.of_workers:
            from pytest_evals.prompts.document_warnings import (
                merge_warnings,
                without_count,
            )

            known = {*map(without_count, texts)}
            found = merge_warnings(self._texts_of_workers())
            texts += [text for text in found if without_count(text) not in known]
        if config.stash.get(ALONE, False):
            texts.append("-n auto sees no GPU and takes 1 worker; -n N takes N")
        if suite_root(config, options.include_path) != config.rootpath:
            texts.append(
                f"pytest took {config.rootpath} for the rootdir, and reads no ini "
                "file here; write --evals-include-path=DIR, with '='"
            )
        return [*dict.fromkeys(texts)]


class WatchedArguments(Mapping[str, Any]):
    """The arguments of a model, as code in task files gets them, which record whether
    they were read: tasks of a file that reads them are not shared by several models."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self.is_read = False

    def __getitem__(self, key: str) -> Any:
        self.is_read = True
        return self._arguments[key]

    def __iter__(self) -> Iterator[str]:
        self.is_read = True
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)
