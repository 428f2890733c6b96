"""One run, without pytest: plan, answer, score, judge, write.

pytest's plugin and :func:`pytest_evals.evaluate` both configure a :class:`Run` and show
its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evals.core.latency import with_latency
from pytest_evals.core.record import Record
from pytest_evals.core.result import SPEND_CAP, RunResult, lacking
from pytest_evals.errors import StoreError
from pytest_evals.gates.check import ungated
from pytest_evals.masking.registry import knows_any
from pytest_evals.masking.values import without_secrets
from pytest_evals.result_files.baselines import find_run
from pytest_evals.run.baselines import Baselines, EarlierOutcomes, setting_faults
from pytest_evals.run.batches import Job, jobs_of
from pytest_evals.run.comparison import (
    baseline_lines,
    compared,
    failure_of,
    saved,
    summary_of,
)
from pytest_evals.run.config import RunConfig
from pytest_evals.run.fill_from_cache import fill_from_cache
from pytest_evals.run.flow import Flow
from pytest_evals.run.gate_judge import GateJudge, Records
from pytest_evals.run.inference import Inference
from pytest_evals.run.run_writer import RunWriter
from pytest_evals.run.suite import Suite, TaskRun
from pytest_evals.scorers.groups import overall_results

if TYPE_CHECKING:
    from pytest_evals.run.early_stopping import EarlyStopping

UNFINISHED = "the run has not ended, or was killed"
TIES = 0.01
"""Share of documents with several best choices from which on a warning is shown."""


class Run:
    """The documents of a suite, and the results and verdicts so far."""

    def __init__(
        self,
        config: RunConfig,
        suite: Suite,
        inference: Inference,
        hook: Any,
        *,
        on_decided: Callable[[str], None] | None = None,
    ) -> None:
        """Create a run; sends and writes nothing. ``on_decided``: called with the name
        of a task whose gates are decided early. Raises ``StoreError`` if the run to
        compare with cannot be read."""
        self.config, self.suite, self.inference = config, suite, inference
        self._hook, self._on_decided = hook, on_decided
        self.writer = RunWriter(
            config.writes_to or config.dir,
            config.name,
            config.started.date,
            writes=config.writes,
            place=config.run_dir,
        )
        self.compared: EarlierOutcomes | None = None
        """The run that this one is compared with."""
        if config.compare:
            run = find_run(config.dir, config.compare, config.here)
            self.compared = EarlierOutcomes(run, suite)
        self.baselines = Baselines(
            config, suite, self.writer.hashes, lambda: inference.info
        )
        self.early_stopping: EarlyStopping | None = None
        """Decides gates early, if tasks may stop."""
        if config.stop != "off":
            from pytest_evals.run.early_stopping import EarlyStopping

            self.early_stopping = EarlyStopping(
                config, suite, self.baselines, self.compared
            )
        self.records = Records(suite, self.writer, hook)
        if hook.pytest_evals_metrics.get_hookimpls():  # it gets complete records
            config = replace(config, keeps_records=True)
        self.flow = Flow(
            config,
            suite,
            inference,
            self.writer,
            on_record=None if self.early_stopping is None else self._record_kept,
            on_task=self._task_ended,
        )
        """Runs documents."""
        self.gate_judge = GateJudge(
            config, suite, inference, self.records, self.baselines, self.early_stopping
        )
        if config.fills:
            self.gate_judge.fill = self._fill
        self.filled: dict[str, int] = {}
        """Task → documents that were not selected and come from the cache."""
        self.partial = ""  # why the run is incomplete; empty if it is complete
        self.result: RunResult | None = None  # the result, once the run is over
        self._ended: dict[str, None] = {}

    def comparison_faults(self) -> list[str]:
        """Return why this run cannot be compared, determined before any request is
        sent: another number of few-shot examples, another limit, version, judge or
        model interface."""
        if self.compared is None:
            return []
        sizes = [(run.task, len(run.ids)) for run in self.suite.tasks.values()]
        config = self.config
        return setting_faults(self.compared.run, sizes, config.judge, config.options)

    def jobs(self) -> tuple[list[Job], list[int]]:
        """Return all documents of the suite in the order in which they are sent, and
        the numbers of documents before which a batch must end; watch the gates of tasks
        that may stop early."""
        stops = self.early_stopping
        if stops is not None:
            stops.watch(stops.candidates())
        jobs: list[Job] = []
        ends: list[int] = []
        for run in self.suite.tasks.values():
            watched = stops.watched(run.task.name) if stops is not None else None
            if watched is not None:
                n = len(watched.positions)
                ends += [len(jobs) + k for k in (*range(0, n, watched.size), n)]
            order = run.indices if watched is None else watched.positions
            jobs += jobs_of(run.task, order)
        return jobs, ends

    def answer(self, jobs: Iterable[Job]) -> None:
        """Run documents of the plan ``None``, except those of tasks that stop
        early."""
        hook, stops = self._hook.pytest_evals_score, self.early_stopping
        score_hook = hook if hook.get_hookimpls() else None
        decided = () if stops is None else stops.decided
        self.flow.run_all(None, jobs, score_hook, decided)

    def _record_kept(self, name: str, record: Record) -> None:
        assert self.early_stopping is not None
        if self.early_stopping.arrived(name, record):
            self.inference.drop(name)
            if self._on_decided is not None:
                self._on_decided(name)

    def _task_ended(self, run: TaskRun) -> None:
        """Write the results so far; after the last task, the end of the run does."""
        self._ended[run.task.name] = None
        if not self.config.judges or not self.config.writes:
            return
        if len(self._ended) < len(self.suite.tasks):
            self.writer.partial_results(lambda: self._summed_up(tuple(self._ended)))
        else:
            self.writer.flush()

    def _fill(self) -> None:
        self.filled = fill_from_cache(
            self.suite, self.inference, self.config, self._hook, self.flow
        )

    def warnings(self, *, plans: bool = False) -> list[str]:
        """Return the warnings about tasks, gates and models so far. ``plans``:
        whether ``--evals-plan`` shows the power of gates."""
        texts = [
            f"{run.task.name}: {text}"
            for run in self.suite.tasks.values()
            for text in run.task.warnings()
        ]
        texts += self.suite.warnings()
        if self.config.judges:
            texts += self.gate_judge.doubts(plans=plans)
            texts += ungated(self.gate_judge.reported.values())
            texts += filter(None, map(_tie_warning, self.suite.tasks.values()))
        texts += self.inference.warnings.texts()
        texts += self.inference.notes
        if self.early_stopping is not None and self.config.judges:
            texts += self.early_stopping.notes
        return list(dict.fromkeys(texts))

    @property
    def spend_cap(self) -> str:
        """The spend cap that was reached, as the reason for a partial run, or ""."""
        found = self.inference.spend_cap
        return f"{SPEND_CAP}{found}" if found else ""

    def _summed_up(self, names: tuple[str, ...]) -> RunResult:
        inference, config = self.inference, self.config
        return RunResult(
            model=inference.name or config.spec,
            model_info=with_latency(inference.info),
            judges={name: with_latency(i) for name, i in inference.judges.items()},
            tasks=tuple(map(self.records.result, names)),
            verdicts=tuple(self.gate_judge.reported.values()),
            options=config.options,
            started=config.started.date,
            elapsed_s=config.started.elapsed_s,
            model_s=inference.model_s,
            n_requests=inference.n_requests,
            reuse=inference.reuse,
            partial=UNFINISHED,
        )

    def finish(self, warnings: list[str]) -> RunResult:
        """Return the result of the whole run."""
        names, groups = tuple(self.suite.tasks), self.suite.group_names()
        result = self._summed_up(names)
        self.partial = self.partial or self.spend_cap or lacking(result.tasks)
        of_groups = {name: self.records.group_result(name) for name in groups}
        self.result = replace(
            result,
            groups=tuple(of_groups.values()),
            overall=overall_results(result.tasks, of_groups),
            partial=self.partial,
            warnings=tuple(warnings),
        )
        if knows_any():
            self.result = _without_secrets(self.result)
        return self.result

    def compare(self) -> None:
        """Compare the finished run, which is written, with its baseline. Raises
        ``StoreError`` if a run cannot be read, or the comparison cannot be written."""
        path, result = self._written()
        if self.compared is not None:
            found = compared(
                self.config.compare,
                self.compared.run,
                path,
                result,
                min_overlap=self.config.min_overlap,
            )
            self.result = replace(result, comparison=found)
            self.writer.add_comparison(summary_of(found))

    def save(self) -> tuple[Path, list[str]]:
        """Save the finished run, which is written, as a baseline; return its folder,
        and messages about it.

        Raises:
            StoreError: The run is partial or failed, or the baseline cannot be written.
        """
        config, (path, result) = self.config, self._written()
        failure = failure_of(result, self.baselines.is_missing)
        place = saved(
            config.dir,
            config.save,
            path,
            result,
            failure="" if config.save_failed else failure,
            consent=config.consent,
        )
        why = f" (of a failed run: {failure})" if failure else ""
        return place, [why, *baseline_lines(config.save, result)]

    def _written(self) -> tuple[Path, RunResult]:
        path = self.writer.path
        if path is None or self.writer.error or self.result is None:
            why = "this run was not written, so it cannot be saved as a baseline"
            raise StoreError(self.writer.error or why)
        return path, self.result


def _without_secrets(result: RunResult) -> RunResult:
    tasks = {
        id(task): replace(
            task, records=tuple(map(_record_without_secrets, task.records))
        )
        for task in result.tasks
    }
    groups = tuple(
        replace(group, tasks=tuple(tasks.get(id(task), task) for task in group.tasks))
        for group in result.groups
    )
    return replace(
        result,
        tasks=tuple(tasks.values()),
        groups=groups,
        verdicts=without_secrets(result.verdicts),
        warnings=without_secrets(result.warnings),
    )


def _record_without_secrets(record: Record) -> Record:
    of_model = (record.responses, record.exchanges, record.scores, record.error)
    shown = without_secrets(of_model)
    if shown is of_model:
        return record
    responses, exchanges, scores, error = shown
    return replace(
        record, responses=responses, exchanges=exchanges, scores=scores, error=error
    )


def _tie_warning(run: TaskRun) -> str:
    """Warn of documents with several best choices; empty if they are few."""
    n_tied, n = len(run.tied), len(run.records)
    if not n_tied or n_tied < TIES * n:
        return ""
    return (
        f"{run.task.name}: in {n_tied:,} of {n:,} documents several choices are "
        "equally likely, and the first of them counts as the answer (first document "
        f"{run.tied[0]})"
    )
