"""The state of one pytest session with eval files.

It exists only once an eval file was found, hangs on ``config.stash``, and knows
pytest's configuration but none of its reports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.record import Record
from pytest_evals.core.result import RunResult
from pytest_evals.core.score import Status
from pytest_evals.core.task import Task
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.gates.documents import with_required
from pytest_evals.gates.when import machine_of
from pytest_evals.plugin.asking.fitness import check_models
from pytest_evals.plugin.asking.models import Models
from pytest_evals.plugin.asking.reference_models import check_reference_models
from pytest_evals.plugin.results.closing import summed_up
from pytest_evals.plugin.results.interim import Interim
from pytest_evals.plugin.results.judging import Judging
from pytest_evals.plugin.results.notices import Notices
from pytest_evals.plugin.results.records import Records
from pytest_evals.plugin.results.repeats import Repeats
from pytest_evals.plugin.settings.options import OPTIONS, suite_root
from pytest_evals.plugin.settings.process import (
    is_distributed,
    load_conftests,
    orders_of,
)
from pytest_evals.plugin.settings.profile import RELEASE
from pytest_evals.plugin.settings.refusals import with_place
from pytest_evals.plugin.settings.run_options import (
    answers_of,
    task_options,
)
from pytest_evals.plugin.settings.selection import Selection
from pytest_evals.plugin.settings.start import STARTED
from pytest_evals.plugin.suite.claims import Claims
from pytest_evals.plugin.suite.gate_checks import check_gates, hooks_of
from pytest_evals.plugin.suite.library import library_of
from pytest_evals.plugin.suite.runs import GroupRun, Runs, TaskRun
from pytest_evals.plugin.workers.telling import Told
from pytest_evals.plugin.workers.wire import pack, unpack
from pytest_evals.reports.files.rendered import Render, rendered
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.baselines import measured_rate
from pytest_evals.run.run_writer import Samples
from pytest_evals.run.scoring import score
from pytest_evals.run.user_hooks import scored

if TYPE_CHECKING:
    from pytest_evals.plugin.modes.stopping import Stopping
    from pytest_evals.plugin.nodes import DocItem, TaskFile
    from pytest_evals.plugin.results.baseline import Baseline
    from pytest_evals.plugin.showing.details import Details

__all__ = ["SESSION", "EvalSession", "session_of"]

SESSION: pytest.StashKey[EvalSession] = pytest.StashKey()
"""Where the state hangs on ``config.stash``."""


def session_of(config: pytest.Config) -> EvalSession:
    """The session's state."""
    return config.stash[SESSION]


class EvalSession:
    """Tasks, their records, the model that answers and the verdicts."""

    details: Details | None = None
    """Which documents are shown with prompt and answer, if any are."""

    _machine: dict[str, tuple[str, ...]] | None = None
    """Model and machine as a worker reported them."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options."""
        self.config = config
        self.options = config.stash[OPTIONS]
        self.started = config.stash[STARTED]
        self.orders = orders_of(config)
        """What the controller of pytest-xdist told this worker."""
        self.selection = Selection(self.options.tasks, chosen=is_distributed(config))
        self.library = library_of(config)
        self.task_options = task_options(
            config, self.options, self.selection, self.library
        )
        noise = partial(measured_rate, self.options.dir, self.options.compare)
        self.gates = SuiteGates(
            suite_root(config, self.options.include_path),
            self.options.gates,
            noise,
            is_release=self.options.profile == RELEASE,
        )
        self.models = Models(answers_of(config), self.options.max_errors)
        self.samples = Samples(self.options.dir, self.options.model, self.started.date)
        self.news: Told | None = None
        """What a worker has still to say of its collection."""
        self._heard: set[str] = set()
        """Files of groups that workers have told of."""
        self.excuses: dict[str, tuple[Any, ...]] = {}
        """Node ids of gates → what their markers ask for, as workers have told."""
        self.known = Runs(
            config.rootpath,
            self.gates,
            self.selection,
            hooked=hooks_of(config),
            raises=self.options.validate,
        )
        self.runs = self.known.tasks
        """Name → task."""
        self.records = Records(self.known, self.samples, config.hook)
        interim = Interim(self.samples, self.runs, partial(summed_up, self))
        self.records.told_of_task = interim.task_ended
        self.claims = Claims(config)
        self.files: dict[Path, TaskFile] = {}
        """Files that were reached through groups."""
        self.folders: dict[Path, pytest.Directory] = {}
        """Folders of such files, where pytest has not collected them itself."""
        self.partial = ""
        self.completed: dict[str, int] = {}
        """Task → documents that were left out, and whose stored responses count."""
        self.baseline: Baseline | None = None
        self.stopping: Stopping | None = None
        self.judging = Judging(self)
        self.notices = Notices(self)
        self.repeats = Repeats()
        self.found: RunResult | None = None
        """What the run has found, once it is over."""

    def model_spec(self) -> str:
        """``--model`` with ``--evals-device``, ``--evals-batch-tokens`` and
        ``--evals-ray`` added."""
        return self.full_spec(self.options.model)

    def full_spec(self, spec: str) -> str:
        """A spec with ``--evals-device``, ``--evals-batch-tokens`` and ``--evals-ray``
        added."""
        extra = {
            "device": self.options.device,
            "batch_tokens": self.options.batch_tokens,
        }
        if spec.partition(":")[0] == "hf":
            spec += "".join(f",{k}={v}" for k, v in extra.items() if v)
        return f"ray:{spec},address={self.options.ray}" if self.options.ray else spec

    def load(self, path: Path, ihook: Any, nodeid: str) -> list[TaskRun | GroupRun]:
        """The tasks and groups of a file that this session wants, their rows read.

        Raises:
            TaskFileError: The file, a dataset or a gate cannot be used.
        """
        if is_distributed(self.config):
            load_conftests(self.config, path.parent)
        given = ihook.pytest_evals_load_tasks(path=path, config=self.config) or ()
        return self.known.add(given, path, nodeid)

    def run(self, item: DocItem) -> Record:
        """The record of a document, answered and scored."""
        if self.stopping is not None:
            self.stopping.skip_if_decided(item)
        answered = self.models.take(item)
        start = time.perf_counter()
        record = self.scored(answered, item)
        took_s = time.perf_counter() - start
        for response in record.responses:
            took_s += response.elapsed_s
        for exchange in record.exchanges:
            took_s += exchange.response.elapsed_s
        item.took_s = took_s
        item.word = _word(record)
        if item.word == "wrong" and self.baseline is not None:
            item.word = self.baseline.word(record, item.job.task)
        chat = self.options.apply_chat_template
        render = self.models.render_of(item) if chat else None
        item.packed = self.finish(item.job.task, record, render)
        return record

    def scored(self, record: Record, item: DocItem) -> Record:
        """Through the user's scorer hook where there is one, else the task's own."""
        hook, task = item.parent.score_hook, item.job.task
        return score(record, task) if hook is None else scored(hook, record, task)

    def finish(
        self, task: Task, record: Record, render: Render | None = None
    ) -> bytes | None:
        """Keep a scored record; what only the samples file needs goes there.

        Returns:
            What a worker sends to the controller, which keeps it in its place.
        """
        run = self.runs[task.name]
        self.repeats.n_first += 1
        record = with_required(record, task, self.known.required(task.name))
        sample = sample_of(rendered(record, render) if render else record, task)
        kept = self.records.to_keep(run, record)
        if self.orders is not None:
            news = self.news and self.news._replace(machine=self.machine)
            packed = pack(kept, sample, news)
            self.news = None
            return packed
        self.records.keep(run, kept, sample)
        return None

    def receive(self, data: bytes) -> None:
        """Keep a record that a worker of pytest-xdist has scored."""
        record, sample, told = unpack(data)
        if told is not None:
            self._hear(told)
        self.models.arrived(record)
        self.records.keep(self.runs[record.task], record, sample)

    @property
    def machine(self) -> dict[str, tuple[str, ...]]:
        """Model and machine, for conditions of gates; known once a document was run."""
        models = self.models
        own = machine_of(models.name, self.options.model, models.info)
        return self._machine or own

    def _hear(self, told: Told) -> None:
        """Know the groups that a worker has collected, its order of tasks, and the
        markers of its gates."""
        self.excuses |= told.excuses
        self._machine = self._machine or told.machine
        for name in told.files:
            if name not in self._heard:
                self._heard.add(name)
                path = Path(os.path.normpath(self.config.rootpath / name))
                self.load(path, self.config.hook, name)
        self.known.order(told.tasks)

    def check(
        self, ids: Iterable[str] | None = None, *, is_broken: bool = False
    ) -> None:
        """Refuse what can be known to be wrong before a model is opened.

        Args:
            ids: Node ids of what will run; ``None`` for everything.
            is_broken: Whether something could not be collected, and is told already.

        Raises:
            pytest.UsageError: A gate names nothing, or the model cannot exist.
        """
        try:
            self._check(ids, is_broken=is_broken)
        except pytest.UsageError as error:
            raise with_place(self.config, error) from None

    def _check(self, ids: Iterable[str] | None, *, is_broken: bool) -> None:
        self.selection.check(self.library.included_names())
        check_gates(self, is_broken=is_broken)
        check_models(self.config, self.model_spec(), self.known.with_documents(ids))
        check_reference_models(self, ids)


def _word(record: Record) -> str:
    if record.error:
        return "error"
    if record.status is Status.UNSCORED:
        return "unscored"
    return _WORDS[record.correct]


_WORDS = {True: "correct", False: "wrong", None: "scored"}
