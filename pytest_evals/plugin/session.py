"""The state of one pytest session with eval files.

It exists only once an eval file was found, is kept on ``config.stash``, and combines a
:class:`~pytest_evals.run.run.Run` with pytest's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.core.record import Record, Status
from pytest_evals.core.task import SuiteFiles
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.dialects.generative_choices import with_choices
from pytest_evals.errors import SpendCapError, StoreError
from pytest_evals.masking.registry import learn_secret, learned
from pytest_evals.masking.values import masked_text
from pytest_evals.models.http.spend_ledger import LEDGER, Ledger
from pytest_evals.plugin.early_stopping import StoppableItems
from pytest_evals.plugin.models.definitions import DocumentItem
from pytest_evals.plugin.models.progress import Progress
from pytest_evals.plugin.models.session_models import Models
from pytest_evals.plugin.outcome import SessionOutcome
from pytest_evals.plugin.rerun_scores import RerunScores
from pytest_evals.plugin.settings.option_table import Options
from pytest_evals.plugin.settings.options import OPTIONS, suite_root
from pytest_evals.plugin.settings.process import (
    ALONE,
    WorkerAssignment,
    assignment_of,
    is_distributed,
    load_conftests,
    selects_items,
)
from pytest_evals.plugin.settings.run_options import (
    answers_of,
    run_config,
    task_options,
)
from pytest_evals.plugin.suite.eval_files import named_places
from pytest_evals.plugin.suite.task_index import skips_of, task_index_of
from pytest_evals.plugin.suite.user_metrics import hooks_of
from pytest_evals.plugin.workers.collection_report import CollectionReport
from pytest_evals.plugin.workers.serialization import pack, unpack
from pytest_evals.plugin.workers.sharding import Costs
from pytest_evals.reports.files.samples import Sample
from pytest_evals.run.baselines import measured_rate
from pytest_evals.run.inference import Inference
from pytest_evals.run.profile import RELEASE
from pytest_evals.run.run import Run
from pytest_evals.run.selection import Selection
from pytest_evals.run.suite import GroupRun, Suite, TaskRun
from pytest_evals.store.history import EarlierRun, last_run, read_run
from pytest_evals.store.recorded_costs import recorded_costs

SESSION: pytest.StashKey[EvalSession] = pytest.StashKey()
"""Where the state is kept on ``config.stash``."""


def session_of(config: pytest.Config) -> EvalSession:
    """Return the session's state."""
    return config.stash[SESSION]


class EvalSession:
    """A run, and what pytest collects of its suite."""

    _last: tuple[DocumentItem, Record] | None = None
    """The document that ran last; plugins rerun a failed one at once."""
    _packed: bytes | None = None
    """The record of the document that runs, on a worker."""
    _sent: frozenset[str] = frozenset()
    """Secrets that the controller knows from this worker."""
    collected_gates: frozenset[str] = frozenset()
    """Node ids of gates, before any deselection; empty if unknown."""

    cut = ""
    """A hash of the parts into which the suite is cut."""

    def __init__(
        self,
        config: pytest.Config,
        document_lines: Callable[[Any, Record], Sequence[str]] | None = None,
    ) -> None:
        """Read the options.

        Raises:
            StoreError: The run to compare with cannot be read.
        """
        self.config = config
        self.document_lines = document_lines
        self.options = options = config.stash[OPTIONS]
        self.assignment = assignment_of(config)
        """The assignment of this worker of pytest-xdist; ``None`` elsewhere."""
        self.selection = Selection(options.tasks, chosen=is_distributed(config))
        self.task_index = task_index_of(config)
        self.task_options = task_options(
            config,
            options,
            self.selection,
            self.task_index,
            SuiteFiles(
                collected=lambda: sorted(named_places(config)), skips=skips_of(config)
            ),
        )
        self.gates = SuiteGates(
            suite_root(config, options.include_path),
            options.gates,
            partial(measured_rate, options.dir, options.compare),
            is_release=options.profile == RELEASE,
            min_overlap=options.min_overlap,
        )
        self.has_result_tests = False
        """Whether tests that use the results are selected; known after collection."""
        self.suite = Suite(
            config.rootpath,
            self.gates,
            self.selection,
            keeps_repeats=lambda: self.has_result_tests,
            hooked=hooks_of(config),
            raises=options.validate,
        )
        _begin_ledger(config, self.assignment)
        inference = Inference(answers_of(config))
        self.progress: Progress | None = None
        """The progress line, while documents run."""
        self.models = Models(inference)
        self.run = Run(
            run_config(config, is_worker=self.assignment is not None),
            self.suite,
            inference,
            config.hook,
            on_decided=self._task_decided,
        )
        if self.assignment is not None:
            self.run.flow.send = self._pack
        self.stoppable: StoppableItems | None = None
        if self.run.early_stopping is not None and not options.validate:
            self.stoppable = StoppableItems(self.run, self.assignment)
        self.outcome = SessionOutcome()
        self.warnings = SessionWarnings(config, self.run)
        self.repeats = RerunScores()
        self.news: CollectionReport | None = None
        """The collection report that a worker has not sent yet."""
        self._reported: set[str] = set()
        """Files of groups that workers have reported."""
        self.gate_marks: dict[str, tuple[Any, ...]] = {}
        """Node id of a gate → its skip and xfail marks, as workers have reported."""
        self.deduplication = Deduplication(config)
        self.files: dict[Path, pytest.File] = {}
        """Files that were reached through groups."""
        self.evals: dict[str, pytest.File] = {}
        """Node id of an eval in a Python module → the parent of its documents."""
        self.folders: dict[Path, pytest.Directory] = {}
        """Folders of such files, if pytest has not collected them itself."""

    @cached_property
    def creates_own_documents(self) -> bool:
        """Whether this is a worker that may create only the documents of its shard."""
        is_worker = self.assignment is not None
        is_chosen = selects_items(self.config) or bool(self.options.shard)
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

    def _task_decided(self, name: str) -> None:
        if self.stoppable is not None:
            self.stoppable.publish()

    def load(self, path: Path, ihook: Any, nodeid: str) -> list[TaskRun | GroupRun]:
        """Return the selected tasks and groups of a file, their rows read.

        Raises:
            TaskFileError: The file, a dataset or a gate cannot be used.
        """
        if is_distributed(self.config):
            load_conftests(self.config, path.parent)
        given = ihook.pytest_evals_load_tasks(path=path, config=self.config) or ()
        loaded = with_choices(given, self.task_options)
        return self.suite.add(loaded, path, nodeid)

    def run_document(self, item: DocumentItem) -> Record:
        """Run a document, set its results on the item, and return its record."""
        if self._last is not None and self._last[0] is item:
            _, record = self._last
            self._warn_of_rerun(record)
            if record.status is Status.SCORED:
                item.packed = None
                return record
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
        item.word = record.word
        if item.word == "wrong" and self.run.compared is not None:
            regressed = self.run.compared.has_regressed(record, item.job.task)
            item.word = "regressed" if regressed else "wrong"
        item.packed, self._packed = self._packed, None
        self.repeats.n_first += 1
        self._last = item, record
        return record

    def _pack(self, record: Record, sample: Sample | None) -> None:
        """Pack a record, and what the controller needs with the first one."""
        assert sample is not None
        machine = dict(self.run.inference.machine(self.options.model))
        news = self.news and self.news._replace(machine=machine)
        known = learned()
        self._packed = pack(record, sample, news, known - self._sent)
        self.news, self._sent = None, known

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
        record, sample, report, secrets = unpack(data)
        for secret in secrets:
            learn_secret(secret)
        if report is not None:
            self._add_collection(report)
        self.run.inference.arrived(record, report.machine if report else None)
        self.run.flow.keep(record, sample)

    def _add_collection(self, report: CollectionReport) -> None:
        """Add the groups that a worker has collected, its order of tasks, and the marks
        of its gates."""
        self.gate_marks |= report.gate_marks
        self.collected_gates |= {*report.gates}
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


def _begin_ledger(config: pytest.Config, assignment: WorkerAssignment | None) -> None:
    """Count for spend caps from 0; workers share a file with their controller, which
    has begun it."""
    if assignment is not None:
        Ledger.begin_run(str(Path(assignment.stop).with_name(LEDGER)))
    elif not is_distributed(config):
        Ledger.begin_run()


class Deduplication:
    """Assigns each task and group to the first collector that reaches it.

    If the command line names a part of a file, all collectors of its tasks collect
    them, because the parts are not known here;
    :mod:`~pytest_evals.plugin.execution.hooks` removes duplicates.
    """

    def __init__(self, config: pytest.Config) -> None:
        base = config.invocation_params.dir
        parts = (str(arg).partition("::") for arg in config.args)
        self._named_files = {base / path for path, colons, _ in parts if colons}
        self._collectors: dict[str, pytest.Collector] = {}

    def take(self, run: TaskRun | GroupRun, collector: pytest.Collector) -> bool:
        """Return whether the collector collects the documents of a task, or the gates
        of a group."""
        if run.path in self._named_files or self._named_files & {collector.path}:
            return True
        return self._collectors.setdefault(run.nodeid, collector) is collector


class SessionWarnings:
    """Collects warnings, and remembers which were reported."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self._config, self._run = config, run
        self._reported: set[str] = set()
        self.of_workers: dict[int, list[str]] = {}
        """Slot of a worker → its warnings."""
        self.unsendable: list[str] = []
        """Tasks with documents that cannot be sent, known before any is."""

    def new(self) -> list[str]:
        """Return the warnings that were not reported yet."""
        fresh = [text for text in self.all() if text not in self._reported]
        self._reported.update(fresh)
        return fresh

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

            by_slot = [self.of_workers[slot] for slot in sorted(self.of_workers)]
            known = {*map(without_count, texts)}
            found = merge_warnings(text for texts in by_slot for text in texts)
            texts += [text for text in found if without_count(text) not in known]
        if config.stash.get(ALONE, False):
            texts.append("-n auto sees no GPU and takes 1 worker; -n N takes N")
        if suite_root(config, options.include_path) != config.rootpath:
            texts.append(
                f"pytest took {config.rootpath} for the rootdir, and reads no ini "
                "file here; write --evals-include-path=DIR, with '='"
            )
        return [*dict.fromkeys(texts)]
