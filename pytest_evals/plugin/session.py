"""The state of one pytest session with eval files.

It exists only once an eval file was found, hangs on ``config.stash``, and knows
pytest's configuration but none of its reports.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.record import Record
from pytest_evals.core.result import GroupResult, RunResult, TaskResult, lacking
from pytest_evals.core.score import Status
from pytest_evals.core.slim import slim
from pytest_evals.core.task import Task
from pytest_evals.frontends.gating.suite_gates import SuiteGates
from pytest_evals.gates.evidence.wanted import with_facts
from pytest_evals.hooked import adds_metrics, scored, with_added_metrics
from pytest_evals.models.spec import redacted
from pytest_evals.pipeline import score
from pytest_evals.plugin.asking.fitness import check_models
from pytest_evals.plugin.asking.models import Models
from pytest_evals.plugin.results.interim import UNFINISHED, Interim
from pytest_evals.plugin.results.judging import Judging
from pytest_evals.plugin.settings.options import OPTIONS, STARTED, suite_root
from pytest_evals.plugin.settings.process import is_distributed, orders_of
from pytest_evals.plugin.settings.run_options import (
    answers_of,
    check_gates,
    check_places,
    public,
    task_options,
)
from pytest_evals.plugin.settings.selection import Selection
from pytest_evals.plugin.suite.claims import Claims
from pytest_evals.plugin.suite.library import library_of
from pytest_evals.plugin.suite.runs import GroupRun, Runs, TaskRun
from pytest_evals.plugin.workers.telling import Told
from pytest_evals.plugin.workers.wire import pack, unpack
from pytest_evals.recording import Samples
from pytest_evals.references import measured_rate
from pytest_evals.reports.files.environment import environment
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.reports.files.rendered import Render, rendered
from pytest_evals.reports.files.samples import Sample, sample_of
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise

if TYPE_CHECKING:
    from pytest_evals.plugin.modes.stopping import Stopping
    from pytest_evals.plugin.nodes import DocItem, TaskFile
    from pytest_evals.plugin.results.baseline import Baseline

__all__ = ["SESSION", "EvalSession", "session_of"]

EXAMPLES = 3
"""Wrong documents of a task that are kept whole, for the message of a failing gate."""


SESSION: pytest.StashKey[EvalSession] = pytest.StashKey()
"""Where the state hangs on ``config.stash``."""


def session_of(config: pytest.Config) -> EvalSession:
    """The session's state."""
    return config.stash[SESSION]


class EvalSession:
    """Tasks, their records, the model that answers and the verdicts."""

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
        self.gates = SuiteGates(config.rootpath, self.options.gates, noise)
        self.models = Models(answers_of(config), self.options.max_errors)
        self.samples = Samples(self.options.dir, self.options.model, self.started)
        self._interim = Interim(self.samples, self._summed_up)
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        self.news: Told | None = None
        """What a worker has still to say of its collection."""
        self._heard: set[str] = set()
        """Files of groups that workers have told of."""
        self.remarks: dict[int, list[str]] = {}
        """Slot of a worker → what it has found odd."""
        self._warned: set[str] = set()
        self._keeps_whole = bool(config.hook.pytest_evals_metrics.get_hookimpls())
        self.known = Runs(
            config.rootpath,
            self.gates,
            self.selection,
            checks=not adds_metrics(config.hook),
        )
        self.runs = self.known.tasks
        """Name → task."""
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
        self.found: RunResult | None = None
        """What the run has found, once it is over."""

    def model_spec(self) -> str:
        """``--model`` with ``--evals-device``, ``--evals-batch-tokens`` and
        ``--evals-ray`` added."""
        spec = self.options.model
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
        for turn in record.turns:
            took_s += turn.response.elapsed_s
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
        record = with_facts(record, task, self.known.wanted(task.name))
        sample = sample_of(rendered(record, render) if render else record, task)
        example = record.correct is False and run.n_examples < EXAMPLES
        run.n_examples += example
        kept = record if example or self._keeps_whole else slim(record)
        if self.orders is not None:
            packed = pack(kept, sample, self.news)
            self.news = None
            return packed
        self._keep(run, kept, sample)
        return None

    def receive(self, data: bytes) -> None:
        """Keep a record that a worker of pytest-xdist has scored."""
        record, sample, told = unpack(data)
        if told is not None:
            self._hear(told)
        self.models.arrived(record)
        self._keep(self.runs[record.task], record, sample)

    def _hear(self, told: Told) -> None:
        """Know the groups that a worker has collected, and its order of tasks."""
        for name in told.files:
            if name not in self._heard:
                self._heard.add(name)
                path = Path(os.path.normpath(self.config.rootpath / name))
                self.load(path, self.config.hook, name)
        self.known.order(told.tasks)

    def lose(self, nodeid: str, why: str) -> None:
        """A document that no worker could finish is an error of its task; an item that
        is no document is none of ours."""
        for run in self.runs.values():
            start = f"{run.nodeid}["
            if nodeid.startswith(start):
                id_ = nodeid[len(start) : -1]
                index = run.indices[list(run.ids).index(id_)]
                doc = Doc("", [], 0, id=id_, task_name=run.task.name)
                record = Record(task=run.task.name, index=index, doc=doc, error=why)
                self._keep(run, record, sample_of(record, run.task))

    def _keep(self, run: TaskRun, record: Record, sample: Sample) -> None:
        """A document that ran twice, because its worker died, counts once."""
        if record.index not in run.records:
            self.samples.add(run.task.name, record.index, sample)
        run.records[record.index] = record
        run.result = None
        if self.stopping is not None:
            self.stopping.arrived(run.task.name, record)
        if len(run.records) == len(run.ids):
            self._interim.task_ended(run, len(self.runs))

    def result(self, name: str) -> TaskResult:
        """A task's metrics over the documents that were run so far."""
        run = self.runs[name]
        if run.result is None:
            result = summarise(run.task, [*run.records.values()], len(run.ids))
            run.result = with_added_metrics(self.config.hook, result)
        return run.result

    def group_result(self, name: str) -> GroupResult:
        """A group's numbers over the documents that were run so far."""
        group = self.known.groups[name].group
        tasks = {task.name: self.result(task.name) for task in group.tasks()}
        return summarise_group(group, tasks)

    def judge(self, gate: Gate) -> tuple[Verdict, TaskResult | GroupResult]:
        """A gate's verdict over what was run, and what it rests on."""
        verdict = self.judging.verdict(gate)
        self.verdicts[gate.task, gate.id] = verdict
        return verdict, self.judging.result_of(gate)

    def new_warnings(self) -> list[str]:
        """What is odd and has not been said yet."""
        fresh = [text for text in self.warnings() if text not in self._warned]
        self._warned.update(fresh)
        return fresh

    def warnings(self) -> list[str]:
        """What is odd about tasks, gates and models, as far as it is known."""
        texts = [
            f"{run.task.name}: {text}"
            for run in self.runs.values()
            for text in run.task.warnings()
        ]
        texts += self.known.warnings()
        if self.orders is None:
            texts += self.judging.doubts()
        texts += self.models.notes
        texts += self.stopping.notes if self.stopping else ()
        if self.remarks:
            from pytest_evals.prompts.notes import merged

            by_slot = [self.remarks[slot] for slot in sorted(self.remarks)]
            texts += merged(text for remarks in by_slot for text in remarks)
        if suite_root(self.config, self.options.include_path) != self.config.rootpath:
            texts.append(
                f"pytest took {self.config.rootpath} for the rootdir, and reads no ini "
                "file here; write --evals-include-path=DIR, with '='"
            )
        return [*dict.fromkeys(texts)]

    def check(self, ids: Iterable[str] | None = None) -> None:
        """Refuse what can be known to be wrong before a model is opened.

        Args:
            ids: Node ids of what will run; ``None`` for everything.

        Raises:
            pytest.UsageError: A gate names nothing, or the model cannot exist.
        """
        self.selection.check(self.library.included_names())
        check_places(self.options)
        base = self.config.invocation_params.dir
        # With --evals-tasks a folder is not collected whole: a gates.yaml may well be
        # about its other tasks.
        given = [] if self.options.tasks else self.config.args
        folders = [p for arg in given if (p := base / arg).is_dir()]
        tasks = [run.task for run in self.runs.values()]
        groups = [run.group for run in self.known.groups.values()]
        check_gates(self.gates, tasks, groups, folders)
        check_models(self.config, self.model_spec(), self.known.with_documents(ids))

    def skipped_gates(self) -> list[str]:
        """Node ids of gates that could not be judged."""
        skipped = {
            key for key, v in self.verdicts.items() if v.outcome is Outcome.SKIPPED
        }
        return [
            f"{run.nodeid}::{gate.id}"
            for run in self.known.all()
            for gate in run.gates
            if (gate.task, gate.id) in skipped
        ]

    def close(self, session: pytest.Session) -> None:
        """Sum up, write what lasts, and tell those who listen.

        A worker only says what its model was and cost, and what it found odd.
        """
        self.models.close()
        if self.orders is not None:
            told = {"models": self.models.told(), "warnings": self.new_warnings()}
            self.config.workeroutput["evals"] = json.dumps(told)  # type: ignore[attr-defined]
            return
        stopped = session.shouldstop or session.shouldfail
        lacks = lacking(map(self.result, self.runs))
        self.partial = self.partial or str(stopped or "") or lacks
        self.found = replace(
            self._summed_up([*self.runs]),
            groups=tuple(map(self.group_result, self.known.group_names())),
            partial=self.partial,
            warnings=tuple(self.warnings()),
        )
        self.samples.flush()
        if is_distributed(self.config):
            self.samples.sort()
        results = results_json(
            self.found,
            exit_code=int(session.exitstatus),
            environment=environment(),
            task_hashes=self.samples.hashes.digests(),
            sample_files=self.samples.files,
            node_ids=self.known.node_ids(),
        )
        self.samples.results(results, self.options.json)
        self.config.hook.pytest_evals_result(result=self.found)
        if self.samples.error and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _summed_up(self, names: Sequence[str]) -> RunResult:
        """What is known of some tasks, before all is known of all."""
        return RunResult(
            model=self.models.name or redacted(self.options.model),
            model_info=self.models.info,
            judges=self.models.judges,
            tasks=tuple(map(self.result, names)),
            verdicts=tuple(self.verdicts.values()),
            options=public(self.options),
            started=self.started,
            elapsed_s=time.time() - self.started,
            model_s=self.models.model_s,
            n_requests=self.models.n_requests,
            reuse=self.models.reuse,
            partial=UNFINISHED,
        )


def _word(record: Record) -> str:
    if record.error:
        return "error"
    if record.status is Status.UNSCORED:
        return "unscored"
    return _WORDS[record.correct]


_WORDS = {True: "correct", False: "wrong", None: "scored"}
