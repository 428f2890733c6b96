"""Stored runs and reference models, paired with the documents of this run: the input of
gates on a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_evals.core.doc import unwatched
from pytest_evals.core.gate import Gate
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.task import Task
from pytest_evals.errors import StoreError
from pytest_evals.masking.values import masked_text
from pytest_evals.models.registry import KINDS
from pytest_evals.reports.files.jsonfile import version_of
from pytest_evals.reports.files.model import judged_by
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.reports.strict import strict
from pytest_evals.result_files.baselines import find_run
from pytest_evals.run.config import RunConfig
from pytest_evals.run.run_writer import TaskHashes
from pytest_evals.run.suite import Suite
from pytest_evals.store.baselines import of_model, own_baseline, stored_flip_rate
from pytest_evals.store.document_pairs import RowsByContent, refer
from pytest_evals.store.history import EarlierRun, MemoryRun
from pytest_evals.store.run_settings import Side, setting_changes

_NAMED = 3  # number of documents in a message


def control_of(suite: Suite, compare: str) -> str:
    """The name of the baseline that completes sampled runs, empty without one: the run
    of ``--evals-compare``, or the only one that gates name."""
    named = {gate.baseline for run in suite.all() for gate in run.gates}
    names = {compare} if compare else {*filter(None, named)}
    return names.pop() if len(names) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun(MemoryRun):
    """The responses of a reference model in this session: a stored run, but in memory.
    ``model``: its spec, without secrets."""

    model: str

    def lacking(self, task: str) -> str:
        """A task's documents without a score, with reasons; empty if all have one."""
        counted = (row for row in self.rows(task) if not row.get("excluded"))
        rows = [row for row in counted if row["status"] != "scored"]
        if not rows:
            return ""
        n = sum(1 for _ in self.rows(task))
        listed = ", ".join(str(row["id"]) for row in rows[:_NAMED])
        listed += ", …" * (len(rows) > _NAMED)
        why = str(rows[0]["error"]).partition("\n")[0]
        which = f"{len(rows)} of {n} documents ({listed})"
        return f"the reference model {self.model} has no score for {which}: {why}"


def _has_kind(name: str) -> bool:
    kind, colon, _ = name.partition(":")
    return bool(colon) and kind in KINDS


def _stored_run(base: Path, name: str, here: Path) -> EarlierRun | str:
    """The stored run of a name, or the folder of a run; or the error, with its fix."""
    try:
        return find_run(base, name, here)
    except StoreError as error:
        if _has_kind(name):
            model = masked_text(name)
            return f"the reference model {model} has not answered the documents yet"
        why = str(error).removesuffix("; save one with --evals-save-baseline")
        if "\n  fix: " in why:  # a run that exists but cannot be read
            return why.replace("\n  fix: ", "; ")
        return f"{why}. Create it: --evals-save-baseline={name}"


def _reference_of_model(run: ReferenceRun, task: str, now: Side) -> Reference:
    """A task in the run of a reference model. Both models have the same prompts, but
    hashes of chats depend on the chat template of each model."""
    fault = run.lacking(task)
    if fault:
        return Reference(baseline=run.model, fault=fault)
    before = Side(results=run.results, rows=run.documents)
    return refer(run.model, task, *map(without_prompts, (before, now)))


def without_prompts(side: Side) -> Side:
    """Return a side whose documents are compared although their prompts differ."""
    rows = {
        task: [{k: v for k, v in row.items() if k != "prompt_hash"} for row in rows]
        for task, rows in side.rows.items()
    }
    return Side(results=side.results, rows=rows)


def measured_rate(base: Path, name: str, label: str, gate: Gate) -> float | None:
    """The measured flip rate of a gate's metric, if any. ``name`` is the baseline to
    read first, if the gate has none; ``label``: the model's name among several."""
    key = f"{gate.metric},{gate.filter}" if gate.filter else gate.metric
    baseline = own_baseline(base, gate.baseline or name, label)
    return stored_flip_rate(base, baseline, gate.task, key)


def settings_of(tasks: Iterable[tuple[Task, int]], judge: str) -> dict[str, Any]:
    """The settings of tasks in ``results.json`` that two comparable runs share."""
    every = [*tasks]
    return {
        "n-shot": {task.name: task.n_shots for task, _ in every},
        "counts": {task.name: {"selected": n} for task, n in every},
        "n-samples": {task.name: {"original": task.rows.total()} for task, _ in every},
        "versions": {task.name: version_of(task) for task, _ in every},
        "configs": {task.name: strict({**task.config}, []) for task, _ in every},
        "judged": {task.name: judged_by(task, judge) for task, _ in every},
    }


def setting_faults(
    run: EarlierRun,
    tasks: Iterable[tuple[Task, int]],
    judge: str,
    options: Mapping[str, Any],
) -> list[str]:
    """Why tasks cannot be compared, determined before any request is sent: another
    number of few-shot examples, another limit, version, judge or model interface."""
    sizes = [*tasks]
    before = Side(results=run.results, rows={})
    settings = {**settings_of(sizes, judge), "options": options}
    now = Side(results=settings, rows={})
    return [
        f"{task.name}: {text}"
        for task, _ in sizes
        if task.name in run.tasks
        for text in setting_changes(task.name, before, now)
    ]


class Baselines:
    """Caches the baselines of a run's gates."""

    def __init__(
        self,
        config: RunConfig,
        suite: Suite,
        hashes: TaskHashes,
        model_info: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Create the baselines of a run; nothing is read. ``model_info`` returns the
        tested model's description."""
        self._base, self._here = config.dir, config.here
        self._judge, self._replaced = config.judge, config.save
        self._label = config.label
        self._options = config.options
        self._suite, self._hashes, self._model_info = suite, hashes, model_info
        self._runs: dict[str, EarlierRun | str] = {}
        self._references: dict[tuple[str, str, int], Reference] = {}

    def add(self, runs: Mapping[str, EarlierRun]) -> None:
        """Add the responses of reference models, by the baseline that gates name."""
        self._runs |= runs

    def is_model(self, name: str) -> bool:
        """Whether the baseline of a gate is a model: ``KIND:…`` with a registered kind,
        and no stored run of that name."""
        return _has_kind(name) and isinstance(
            _stored_run(self._base, name, self._here), str
        )

    def is_replaced(self, name: str) -> bool:
        """Whether this run is saved as the baseline that a gate names."""
        return bool(name) and of_model(name, self._label) == self._replaced

    def _stored(self, name: str) -> EarlierRun | str:
        of_model = own_baseline(self._base, name, self._label)
        return _stored_run(self._base, of_model, self._here)

    def is_missing(self, name: str) -> bool:
        """Whether no stored run has this name."""
        return isinstance(self._stored(name), str)

    def run(self, name: str) -> EarlierRun | str:
        """Return the stored run of a name or the responses of that model; or the error,
        with its fix, if missing."""
        if name not in self._runs:
            found = self._stored(name)
            named = found if isinstance(found, str) else self._suite.named(found)
            self._runs[name] = named
        return self._runs[name]

    def find(self, baseline: str, task: str) -> Reference:
        """Return a task in a baseline, paired with the documents that are scored."""
        key = (baseline, task, len(self._suite.tasks[task].records))
        if key not in self._references:
            self._references[key] = self._paired(baseline, task)
        return self._references[key]

    def _paired(self, name: str, task: str) -> Reference:
        run, is_replaced = self.run(name), self.is_replaced(name)
        missing = Reference(baseline=name, is_replaced=is_replaced)
        if isinstance(run, str):
            return replace(missing, fault=run, is_new=is_replaced)
        if isinstance(run, ReferenceRun):
            return _reference_of_model(run, task, self._now(task))
        try:
            rows = {one: list(run.all_rows(one)) for one in run.tasks if one == task}
        except StoreError as error:
            return replace(missing, fault=str(error))
        others: dict[str, list[Any]] = {one: [] for one in run.tasks}
        before = Side(results=run.results, rows={**others, **rows})
        return replace(
            refer(name, task, before, self._now(task)), is_replaced=is_replaced
        )

    def _now(self, name: str) -> Side:
        """A task of this run, as one of two runs to pair."""
        run = self._suite.tasks[name]
        task, known, reads = run.task, self._hashes.of(name), self._hashes.reads(name)
        settings = settings_of([(task, len(run.ids))], self._judge)
        settings["model_info"] = dict(self._model_info())
        settings["options"] = self._options
        rows = [
            {"doc_id": at, "id": record.doc.id, **known[at], "reads": reads}
            for at, record in sorted(run.records.items())
        ]

        def doc(row: Mapping[str, Any]) -> dict[str, Any]:
            found: dict[str, Any] = strict(unwatched(task.ask(row["doc_id"]).doc.row))
            return found

        return Side(results=settings, rows={name: rows}, doc=doc)


class EarlierOutcomes:
    """The correctness of documents in the run that this one is compared with."""

    def __init__(self, run: EarlierRun, suite: Suite) -> None:
        """Create the outcomes; the suite may be incomplete."""
        self._run, self._suite = run, suite
        self._correct: dict[str, RowsByContent[bool]] = {}

    @cached_property
    def run(self) -> EarlierRun:
        """The run, with the names of the complete suite."""
        return self._suite.named(self._run)

    def has_regressed(self, record: Record, task: Task) -> bool:
        """Whether a document that is wrong now was correct in the baseline."""
        hashes = TaskHashes()
        hashes.add(task.name, 0, sample_of(record, task))
        return self.was_correct(task.name, hashes.of(task.name)[0])

    def was_correct(self, task: str, row: Mapping[str, Any]) -> bool:
        """Whether a document was correct; if hashes are equal, whether all were."""
        if task not in self._correct:
            rows = self.run.rows(task)
            self._correct[task] = RowsByContent(
                (r, r.get("correct") is True) for r in rows
            )
        found = self._correct[task].all(row)
        return bool(found) and all(found)
