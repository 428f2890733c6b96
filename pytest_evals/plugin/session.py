"""The state of one pytest session with eval files.

It exists only once an eval file was found, is kept on ``config.stash``, and combines a
:class:`~pytest_evals.run.run.Run` with pytest's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.record import Record, Status
from pytest_evals.core.task import Group, SuiteFiles, Task, TaskOptions
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.dialects.generative_choices import with_choices
from pytest_evals.errors import SpendCapError, StoreError
from pytest_evals.masking.registry import learn_secret, learned
from pytest_evals.masking.values import masked_text
from pytest_evals.models.names import NamedModel
from pytest_evals.models.spec import kind_name
from pytest_evals.plugin.models.progress import Progress
from pytest_evals.plugin.models.session_models import DocumentItem, Models
from pytest_evals.plugin.settings import process, run_options
from pytest_evals.plugin.settings.option_table import Options
from pytest_evals.plugin.settings.options import suite_root
from pytest_evals.plugin.shared_state import (
    SessionWarnings,
    SharedState,
    WatchedArguments,
)
from pytest_evals.plugin.suite.eval_files import named_places
from pytest_evals.plugin.suite.file_nodes import Deduplication, refuse_equal_ids
from pytest_evals.plugin.suite.task_index import skips_of
from pytest_evals.plugin.workers.serialization import CollectionReport, pack, unpack
from pytest_evals.plugin.workers.sharding import Costs, Shards, shard_models
from pytest_evals.reports.files.samples import Sample
from pytest_evals.run.baselines import measured_rate
from pytest_evals.run.batches import Job
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.inference import Inference
from pytest_evals.run.profile import RELEASE
from pytest_evals.run.run import Run
from pytest_evals.run.suite import GroupRun, Suite, TaskRun
from pytest_evals.store.history import EarlierRun, last_run, read_run, recorded_costs

if TYPE_CHECKING:
    from pytest_evals.plugin.early_stopping import StoppableItems

_SERVED = ("openai", "python")
"""Kinds of models that take no memory of this machine's devices."""
SESSION: pytest.StashKey[EvalSession] = pytest.StashKey()
"""Where the state is kept on ``config.stash``."""


def session_of(config: pytest.Config) -> EvalSession:
    """Return the session's state; that of its first model, if several are tested."""
    return config.stash[SESSION]


class EvalSession:
    """A run, and what pytest collects of its suite. If several models are tested, each
    has its own, with its own suite and run."""

    _last: tuple[DocumentItem, Record] | None = None
    """The document that ran last; plugins rerun a failed one at once."""
    _packed: bytes | None = None  # the record of the document that runs, on a worker
    progress: Progress | None = None  # the progress line, while documents run
    is_selected = True  # whether documents or gates of its model are selected
    cut = ""  # a hash of the parts into which its suite is cut
    _sent: frozenset[str] = frozenset()
    """Secrets that the controller knows from this worker."""
    news: CollectionReport | None = None
    """The collection report that a worker has not sent yet."""
    _is_told = False  # whether a report without a record has brought it
    stoppable: StoppableItems | None = None
    """The items that early stopping skips, if it is on."""
    merged: Callable[[Job], Record] | None = None
    """Keeps and returns the record of a document, if the session merges parts."""

    def __init__(
        self,
        shared: SharedState[EvalSession],
        lines: Callable[[Any, Record], Sequence[str]] | None = None,
        model: NamedModel | None = None,
    ) -> None:
        """Create the state of a model, and add it to the session's. ``model``: the
        tested model, if there are several.

        Raises:
            StoreError: The run to compare with cannot be read.
        """
        self.shared, self.config, self.document_lines = shared, shared.config, lines
        self.assignment, self.selection = shared.assignment, shared.selection
        self.task_index, self.outcome = shared.task_index, shared.outcome
        config, self.options = shared.config, shared.options
        if model is not None:
            self.options = run_options.of_model(self.options, model)
        options = self.options
        self.model = model.name if model is not None else ""
        """The name of its model; empty if it is the only one."""
        self.all = shared.sessions  # the states of all models, in their order
        self.all.append(self)
        self._arguments, self.task_options = self._task_options()
        self.gates = SuiteGates(
            suite_root(config, options.include_path),
            options.gates,
            partial(measured_rate, options.dir, options.compare, self.model),
            is_release=options.profile == RELEASE,
            min_overlap=options.min_overlap,
        )
        self.suite = Suite(
            config.rootpath,
            self.gates,
            shared.selection,
            keeps_repeats=lambda: shared.has_result_tests,
            hooked=run_options.hooks_of(config),
            raises=options.validate,
        )
        self.suite.model = self.model
        inference = Inference(run_options.answers_of(config))
        tested = model or next(iter(options.models), None)
        inference.given_name = tested.name if tested is not None else ""
        self.models = Models(inference)
        if self.model:
            spec = run_options.full_spec(options, options.model)
            self.models.open_here(spec, options.judge, self._close_others)
        self.run = Run(
            run_options.run_config(
                config, options, self.model, is_worker=self.assignment is not None
            ),
            self.suite,
            inference,
            config.hook,
            on_decided=self._task_decided,
        )
        if self.assignment is not None:
            self.run.flow.send = self._pack
        if self.run.early_stopping is not None and not options.validate:
            from pytest_evals.plugin.early_stopping import StoppableItems

            place = self.all.index(self)
            self.stoppable = StoppableItems(self.run, self.assignment, place, self.owns)
        self.warnings = SessionWarnings(config, self.run)
        self._reported: set[str] = set()  # files of groups that workers have reported
        self.gate_marks: dict[str, tuple[Any, ...]] = {}
        """Node id of a gate → its skip and xfail marks, as workers have reported."""
        self.deduplication = Deduplication(config)
        self.files: dict[Path, pytest.File] = {}
        """Files that were reached through groups."""
        self.listed: list[Task] = []  # tasks whose datasets are listed and not loaded
        self.evals: dict[str, pytest.File] = {}
        """Node id of an eval in a Python module → the parent of its documents."""

    def owns(self, item: pytest.Item) -> bool:
        """Whether an item is a document or a gate of its model."""
        return getattr(item.parent, "evals", None) is self

    @property
    def tested(self) -> list[tuple[CachedModels, str]]:
        """The specs of all models, with the responses that are stored."""
        runs = [one.run for one in self.all]
        return [(one.inference.answers, one.config.full_spec) for one in runs]

    @property
    def is_first(self) -> bool:
        """Whether its model is the only one, or the first of several."""
        return self.all[0] is self

    def _task_options(self) -> tuple[WatchedArguments, TaskOptions]:
        shared, config = self.shared, self.config
        files = SuiteFiles(
            collected=lambda: sorted(named_places(config)), skips=skips_of(config)
        )
        found = run_options.task_options(
            config, self.options, shared.selection, shared.task_index, files
        )
        watched = WatchedArguments(found.model_arguments)
        if self.model:
            found = replace(found, model_arguments=watched)
        return watched, found

    @cached_property
    def is_served(self) -> bool:
        """Whether its model runs elsewhere, so that several may run at a time."""
        return kind_name(self.options.model) in _SERVED

    def _close_others(self) -> None:
        """Give back the memory of other models before this one is loaded."""
        for one in self.all:
            if one is not self and not one.is_served:
                one.models.close()

    @cached_property
    def creates_own_documents(self) -> bool:
        """Whether this is a worker that may create only the documents of its shard."""
        is_worker = self.assignment is not None
        is_chosen = process.selects_items(self.config) or bool(self.options.shard)
        return is_worker and self.stoppable is None and not is_chosen

    @cached_property
    def costs_run(self) -> EarlierRun | None:
        """The earlier run whose costs cut the shards, if there is one."""
        if self.assignment is None:
            return costs_run(self.options)
        costs = self.assignment.costs
        return read_run(Path(costs)) if costs else None

    @cached_property
    def recorded_costs(self) -> Costs:
        """Costs of documents in an earlier run of this model."""
        run = self.costs_run
        return recorded_costs(run, self.suite.tasks) if run is not None else {}

    def shards(self, ids: Sequence[str], n: int) -> Shards:
        """The items of each of ``n`` workers, by their node ids."""
        waves = [one.stoppable.waves() if one.stoppable else {} for one in self.all]
        suites = [one.suite for one in self.all]
        return shard_models(ids, suites, n, waves, self.recorded_costs)

    @property
    def part_of_run(self) -> str:
        """Why a part of a run is partial; empty for a whole run."""
        part, _, n = self.options.shard.partition("/")
        return f"part {part} of {n}" if n else ""

    def _task_decided(self, name: str) -> None:
        if self.stoppable is not None:
            self.stoppable.publish()

    def load(self, path: Path, ihook: Any, nodeid: str) -> list[TaskRun | GroupRun]:
        """Return the selected tasks and groups of a file, their rows read.

        Raises:
            TaskFileError: The file, a dataset or a gate cannot be used.
        """
        if process.is_distributed(self.config):
            process.load_conftests(self.config, path.parent)
        if self.options.prefetch and self.config.option.collectonly:  # a list
            for one in self._tasks(path, ihook):
                self.listed += one.tasks() if isinstance(one, Group) else [one]
            return []
        return self.suite.add(self._tasks(path, ihook), path, nodeid)

    def _tasks(self, path: Path, ihook: Any) -> Sequence[Task | Group]:
        """Return the tasks of a file. Models share them, with their rows and few-shot
        examples, unless the code of a file gets the model's arguments."""
        shared = self.shared
        if not self.is_first and path in shared.tasks:
            return shared.tasks[path]
        shared.loading, self._arguments.is_read = self, False
        given = ihook.pytest_evals_load_tasks(path=path, config=self.config) or ()
        loaded = [*with_choices(given, self.task_options)]
        if self.model and self.is_first and not self._arguments.is_read:
            loaded = shared.tasks[path] = [*map(shared.prompts.shared, loaded)]
        return loaded

    def run_document(self, item: DocumentItem) -> Record:
        """Run a document, set its results on the item, and return its record."""
        if self._last is not None and self._last[0] is item:
            _, record = self._last
            self._warn_of_rerun(record)
            if record.status is Status.SCORED:
                item.packed = None
                return record
        if self.merged is not None:
            return self._ended(item, self.merged(item.job))
        if self.stoppable is not None:
            self.stoppable.skip_if_decided(item)
        definition = item.parent.model_definition(item)
        if self.models.broken:
            self.models.skip_if_broken(definition)
        try:
            record, item.took_s = self.run.flow.run(
                definition, item.job, item.parent.score_hook
            )
        except SpendCapError as error:
            item.word = "unsent"
            pytest.skip(str(error))
        except (Exception, SystemExit) as error:
            if definition in self.run.flow.failed:
                self.models.end(definition, item, error)
            raise
        return self._ended(item, record)

    def _ended(self, item: DocumentItem, record: Record) -> Record:
        """Set the results of a document on its item, and return its record."""
        item.word = record.word
        if item.word == "wrong" and self.run.compared is not None:
            regressed = self.run.compared.has_regressed(record, item.job.task)
            item.word = "regressed" if regressed else "wrong"
        item.packed, self._packed = self._packed, None
        self.shared.repeats.n_first += 1
        self._last = item, record
        return record

    def _pack(self, record: Record, sample: Sample | None) -> None:
        """Pack a record, and what the controller needs with the first one."""
        assert sample is not None
        machine = dict(self.run.inference.machine(self.options.model))
        news = self.news and self.news._replace(machine=machine)
        known = learned()
        place = self.all.index(self)
        self._packed = pack(record, sample, news, known - self._sent, place)
        self.news, self._sent = None, known

    def news_once(self) -> tuple[int, tuple[Any, ...]] | None:
        """Return the position of the model and the fields of a worker's collection
        report, the first time: if all documents are skipped, no record brings it."""
        is_told, self._is_told = self._is_told, True
        if is_told or self.news is None:
            return None
        return self.all.index(self), tuple(self.news)

    def _warn_of_rerun(self, record: Record) -> None:
        """Warn that another plugin runs a failed document again."""
        text = "documents without a score were sent again by a plugin that reruns tests"
        if record.status is Status.SCORED:
            text = (
                "reruns of failed tests do not send a document again: its first answer "
                "counts; set repeats to measure how much answers vary"
            )
        self.run.inference.warnings.add(f"{record.task}: {text}", record.doc.id)

    def receive(self, data: bytes) -> None:
        """Keep a record that a worker of pytest-xdist has scored."""
        record, sample, report, secrets, model = unpack(data)
        for secret in secrets:
            learn_secret(secret)
        tested = self.all[model]
        if report is not None:
            tested.add_collection(report)
        tested.run.inference.arrived(record, report.machine if report else None)
        tested.run.flow.keep(record, sample)

    def select(self, ids: Collection[str]) -> None:
        """Leave out models without any selected document or gate; refuse equal ids.
        ``ids``: node ids of the selected items. A release needs all gates."""
        if self.model:
            refuse_equal_ids([one.suite for one in self.all])
        if not self.model or self.options.profile == RELEASE:
            return
        for one in self.all:
            gates = (run.gate_id(gate) for run in one.suite.all() for gate in run.gates)
            has_gates = not {*ids}.isdisjoint(gates)
            has_documents = bool(one.suite.with_documents(ids))
            one.is_selected = has_gates or has_documents or bool(self.options.shard)

    def lose(self, nodeid: str, why: str) -> None:
        """Record a document that no worker could finish as an error of its task."""
        for one in self.all:
            one.run.flow.lose(nodeid, why)

    def add_collection(self, report: CollectionReport) -> None:
        """Add the groups that a worker has collected, its order of tasks, and the marks
        of its gates."""
        self.gate_marks |= report.gate_marks
        self.shared.collected_gates |= {*report.gates}
        for name in report.files:
            if name not in self._reported:
                self._reported.add(name)
                path = Path(os.path.normpath(self.config.rootpath / name))
                self.load(path, self.config.hook, name)
        for name in report.ambiguous:
            self.suite.qualify(name)
        self.suite.order(report.tasks)


def costs_run(options: Options) -> EarlierRun | None:
    """The newest run of this session's model, if there is one."""
    model = masked_text(options.model) if options.model else ""
    with suppress(StoreError):
        return last_run(options.dir, model)
    return None
